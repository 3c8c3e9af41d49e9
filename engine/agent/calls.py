"""Dispatches the tool calls of one model response. Each call gets a result, even if the turn is cancelled (CALL-1)."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic_ai.messages import ToolCallPart

from engine.agent.clients.text_calls import problem_of
from engine.agent.events import CallFinished, CallProgress, CallStarted, OnEvent
from engine.agent.hooks import HookCalls, HookedTurn
from engine.agent.host import ToolHost
from engine.agent.journal.recorder import RunRecorder
from engine.agent.journal.run_entries import CallBegun, CallEnded, RequestedCall
from engine.agent.journal.run_state import Round
from engine.contract.canonical import digest
from engine.contract.context import no_progress
from engine.contract.failure import Failure, FailureClass
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.spec import META_TOOL, Origin, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.in_flight import BeforeRun
from engine.dispatch.stages import stages
from engine.formats.names import ProviderNames
from engine.policy.approval import NOT_APPROVED, UNANSWERED
from engine.stores.key_ledger import KEPT_H

# How long after a response a keyed call may be made again: an hour less than its first result is kept.
_KEYS_LAST = timedelta(hours=KEPT_H - 1)
_ID_LENGTH = 16  # hexadecimal digits, as in generated ids
NOT_BEGUN = "Not run: the turn was cancelled before this call began."


class CallRound:
    """Runs the calls of the latest response that have no result yet, and records their results.

    Whatever happens, each call has a result afterwards (CALL-1), unless the run has to wait for an approval.
    """

    def __init__(self, current: Round, recorder: RunRecorder, now: datetime, hooks: HookCalls | None = None) -> None:
        """Create a round.

        Args:
            current: The response, and the results so far.
            recorder: Records the results.
            now: The time, which decides whether the key of an interrupted call still protects it.
            hooks: Called before and after each call.
        """
        self._round = current
        self._recorder = recorder
        self._now = now
        self._hooks = hooks or HookCalls()
        # Calls that an earlier process began. Those that this process begins end in it.
        self._interrupted = {at: keyed for at, keyed in current.begun.items() if at not in current.results}
        self.unapproved = ""  # why a call could not be approved: nobody could be asked, or nobody answered

    async def run(self, host: ToolHost, hooked: HookedTurn, on_event: OnEvent) -> None:
        """Dispatch the calls in stages, each of which is a group of calls that run at the same time (CALL-7).

        The signal of a control tool, such as `replan`, takes effect after the stage of the tool.
        """
        try:
            for stage in self._round.response.stages:
                if self._signal() or self.unapproved:
                    break
                async with asyncio.TaskGroup() as group:
                    for at in stage:
                        if at not in self._round.results:
                            group.create_task(self._one(at, host, hooked, on_event))
        except asyncio.CancelledError:
            if not self._recorder.leave_open:
                self._skip("cancelled", NOT_BEGUN)
            raise
        except ExceptionGroup as failed:  # the journal could not be written
            raise failed.exceptions[0] from failed
        if not self.unapproved:
            self._skip("skipped", f"Not run, because `{self._signal()}` was called first.")

    def cancel_open(self) -> None:
        """Note results of the calls that have none: they were not run, or it is unknown what they did."""
        for at, call in enumerate(self._round.calls):
            if at in self._interrupted:
                self._recorder.note(CallEnded(at, interrupted(call)))
        self._skip("cancelled", NOT_BEGUN)

    def _signal(self) -> str:
        """Return the name of the control tool that was called in this round; "" if there is none."""
        outcomes = self._round.outcomes
        return next((one.call.name for one in outcomes if control_signal(one.call.name, one.result)[0]), "")

    def _skip(self, reason: str, why: str) -> None:
        """Note the results of the calls that were not run."""
        allowed = {at for stage in self._round.response.stages for at in stage}
        for at in range(len(self._round.parts)):
            if at not in self._round.results:
                result = refused(reason, why) if at in allowed else refused("budget", self._round.response.why_not)
                self._recorder.note(CallEnded(at, result))

    async def _one(self, at: int, host: ToolHost, hooked: HookedTurn, on_event: OnEvent) -> None:
        call = self._round.calls[at]
        loop = asyncio.get_running_loop()
        began = loop.time()
        on_event(CallStarted(call))

        def report_progress(message: str, fraction: float | None = None) -> None:
            on_event(CallProgress(call, message, fraction))

        async def note_begin(spec: ToolSpec) -> None:
            if spec.idempotency_key_fields or not spec.replay_safe:
                await self._recorder.record(CallBegun(at, keyed=bool(spec.idempotency_key_fields)))

        try:
            call_id = self._id_of(at, hooked.turn)
            if not self._may_run(at) and not await host.can_repeat(call_id, call.name, call.arguments):
                result = interrupted(call)
            elif why := await self._hooks.before_call(hooked, call):
                result = refused("hook", f"{call.name} was not called: {why}")
            else:
                part, turn = self._round.parts[at], hooked.turn
                result = await dispatch(
                    host, turn, part, call.name, call_id=call_id, progress=report_progress, before_run=note_begin
                )
        except asyncio.CancelledError:
            if self._recorder.leave_open:
                raise
            result = cancelled(call, (loop.time() - began) * 1000.0)
            self._recorder.note(CallEnded(at, result))
            on_event(CallFinished(call, result))
            raise
        waits = self._recorder.may_wait and nobody_answered(result)
        if waits and (at not in self._round.begun or await host.can_repeat(call_id, call.name, call.arguments)):
            self.unapproved = self.unapproved or result.text
            return
        await self._recorder.record(CallEnded(at, result))
        on_event(CallFinished(call, result))
        await self._hooks.after_call(hooked, call, result)

    def _id_of(self, at: int, turn: Turn) -> str:
        """Return the id of a call, which is the same in each process that works on the run."""
        if not turn.run:
            return ""
        responded = self._round.response.response.timestamp.isoformat()
        return digest([turn.run, responded, at])[:_ID_LENGTH]

    def _may_run(self, at: int) -> bool:
        """Return whether the call may run, although it may have been begun before the process was killed."""
        if at not in self._interrupted:
            return True
        age = self._now - self._round.response.response.timestamp
        return self._interrupted[at] and age < _KEYS_LAST


async def dispatch(
    host: ToolHost,
    turn: Turn,
    part: ToolCallPart,
    name: str,
    *,
    call_id: str = "",
    progress: Callable[..., None] = no_progress,
    before_run: BeforeRun | None = None,
) -> ToolResult:
    """Run one call. Arguments that are not a JSON object are refused here, because they cannot be validated."""
    unreadable = problem_of(part)
    if unreadable:
        return refused("unreadable_call", unreadable)
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        given = part.args_as_json_str()[:200]
        return refused(
            "invalid_arguments", f"{name}: the arguments must be one JSON object, but these are not: {given}"
        )
    return await host.call(name, arguments, turn, call_id=call_id, progress=progress, before_run=before_run)


def requested_calls(
    parts: Sequence[ToolCallPart], specs: Sequence[ToolSpec], allowed: int
) -> tuple[tuple[RequestedCall, ...], tuple[tuple[int, ...], ...]]:
    """Return what the journal keeps about the calls of a response, and the stages in which they run.

    Args:
        parts: The calls.
        specs: The tools that were offered to the model.
        allowed: How many of the calls may run.
    """
    names = ProviderNames(spec.name for spec in specs)
    known = {name: spec for spec in specs for name in (spec.name, *spec.aliases)}
    wanted = [ToolCall(names.from_provider(part.tool_name), {}) for part in parts]
    calls = tuple(_requested(call.name, known.get(call.name)) for call in wanted)
    return calls, tuple(tuple(stage) for stage in stages(wanted[:allowed], known))


def _requested(name: str, spec: ToolSpec | None) -> RequestedCall:
    if spec is None:
        return RequestedCall(name, read_only=True)  # there is no such tool, so nothing will change
    read_only = spec.annotations.read_only or spec.name == "replan"
    meta = spec.annotations.read_only and spec.meta.get(META_TOOL) is True
    return RequestedCall(name, acquired=spec.origin is not Origin.STATIC, read_only=read_only, meta=meta)


def refused(reason: str, error: str) -> ToolResult:
    """Return the result of a call that was not run."""
    failure = Failure(FailureClass.DIAGNOSTIC, reason, may_have_started=False, replay_safe=True)
    return ToolResult(success=False, error=error, failure=failure, audit=Audit(end="refused"))


def cancelled(call: ToolCall, took_ms: float) -> ToolResult:
    """Return the result of a call that was cancelled `took_ms` after its start."""
    failure = Failure(FailureClass.DIAGNOSTIC, "cancelled", may_have_started=True)
    audit = Audit(tool=call.name, call_id=call.id, duration_ms=took_ms, attempts=1, end="killed")
    return ToolResult(success=False, error="Cancelled before it finished.", failure=failure, audit=audit)


def interrupted(call: ToolCall) -> ToolResult:
    """Return the result of a call that was running when its process was killed."""
    failure = Failure(FailureClass.DIAGNOSTIC, "may_have_happened", may_have_started=True)
    error = (
        f"{call.name} may have happened: the process was killed while the call ran. It was not repeated. Check whether "
        "it had an effect before you call the tool again."
    )
    return ToolResult(success=False, error=error, failure=failure, audit=Audit(tool=call.name, end="killed"))


def nobody_answered(result: ToolResult) -> bool:
    """Return whether a call was not run because nobody could be asked to approve it, or nobody answered."""
    return result.failure is not None and result.failure.reason == NOT_APPROVED and result.output == UNANSWERED


def control_signal(tool: str, result: ToolResult) -> tuple[str, str]:
    """Return the ``(signal, reason)`` that a control tool sent (TOOL-11), or empty strings if it sent none.

    A signal is accepted only from the tool of the same name, so that no output of a skill can control the loop.
    """
    value: Any = result.output
    if not result.success or not isinstance(value, dict) or tool not in {"replan", "abort_attempt"}:
        return "", ""
    if value.get("signal") != tool:
        return "", ""
    said = [str(value[key]) for key in ("reason", "learned", "new_plan") if value.get(key)]
    return tool, " ".join(said)


def fatal_reason(outcomes: Sequence[CallFinished]) -> str:
    """Describe the FATAL failures among these calls; "" if there are none.

    A FATAL failure means that the strategy must change (LOOP-7).
    """
    fatal = [
        f"{outcome.call.name} cannot succeed ({outcome.result.failure.reason})"
        for outcome in outcomes
        if outcome.result.failure is not None and outcome.result.failure.failure_class is FailureClass.FATAL
    ]
    return ", ".join(dict.fromkeys(fatal))
