"""Dispatches the tool calls of one model response. Each call gets a result, even if the turn is cancelled (CALL-1)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from engine.agent.events import CallFinished, CallProgress, CallStarted, OnEvent
from engine.agent.host import ToolHost
from engine.agent.text_calls import problem_of
from engine.contract.context import no_progress
from engine.contract.failure import Failure, FailureClass
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.stages import stages
from engine.formats.names import ProviderNames


class CallRound:
    """Runs the calls of one model response, and keeps their outcomes. At every moment, each call has an outcome."""

    def __init__(
        self, parts: Sequence[ToolCallPart], allowed: int, why_not: str, specs: Sequence[ToolSpec] = ()
    ) -> None:
        """Parse the calls.

        Args:
            parts: The calls of the response.
            allowed: How many of them may run.
            why_not: The error to report for the calls beyond `allowed`.
            specs: The tools that were offered to the model.
        """
        self._parts = parts
        names = ProviderNames(spec.name for spec in specs)
        self._calls = [as_call(part, names) for part in parts]
        self._specs = {name: spec for spec in specs for name in (spec.name, *spec.aliases)}
        self._allowed = allowed
        self._why_not = why_not
        self._results: dict[int, ToolResult] = {}
        self.skip_rest = ""  # the control tool that was called; the remaining calls are skipped

    @property
    def outcomes(self) -> list[CallFinished]:
        """The outcome of each call, in the order of the response. A call that was not run has a result that says so."""
        return [
            CallFinished(call, self._results.get(index) or self._not_run(index))
            for index, call in enumerate(self._calls)
        ]

    def returns(self) -> list[ToolReturnPart]:
        """Return the outcomes as messages for the model."""
        return [
            ToolReturnPart(
                tool_name=part.tool_name,
                content=outcome.result.text or ("Done." if outcome.result.success else "Failed."),
                tool_call_id=part.tool_call_id,
            )
            for part, outcome in zip(self._parts, self.outcomes, strict=True)
        ]

    async def run(self, host: ToolHost, turn: Turn, on_event: OnEvent) -> None:
        """Dispatch the calls in stages, each of which is a group of calls that run at the same time (CALL-7).

        The signal of a control tool, such as `replan`, takes effect after the stage of the tool.
        """
        for stage in stages(self._calls[: self._allowed], self._specs):
            if self.skip_rest:
                return
            async with asyncio.TaskGroup() as group:
                for index in stage:
                    group.create_task(self._one(index, host, turn, on_event))
            for index in stage:
                self.skip_rest = self.skip_rest or control_signal(self._calls[index].name, self._results[index])[0]

    async def _one(self, index: int, host: ToolHost, turn: Turn, on_event: OnEvent) -> None:
        call = self._calls[index]
        loop = asyncio.get_running_loop()
        began = loop.time()
        on_event(CallStarted(call))

        def report_progress(message: str, fraction: float | None = None) -> None:
            on_event(CallProgress(call, message, fraction))

        try:
            self._results[index] = await dispatch(host, turn, self._parts[index], call.name, report_progress)
        except asyncio.CancelledError:
            took = (loop.time() - began) * 1000.0
            self._results.setdefault(index, cancelled(call, took))
            raise
        finally:
            if index in self._results:
                on_event(CallFinished(call, self._results[index]))

    def _not_run(self, index: int) -> ToolResult:
        if index >= self._allowed:
            return refused("budget", self._why_not)
        if self.skip_rest:
            return refused("skipped", f"Not run, because `{self.skip_rest}` was called first.")
        return refused("cancelled", "Not run: the turn was cancelled before this call began.")


async def dispatch(
    host: ToolHost, turn: Turn, part: ToolCallPart, name: str, progress: Callable[..., None] = no_progress
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
    return await host.call(name, arguments, turn, progress=progress)


def as_call(part: ToolCallPart, names: ProviderNames) -> ToolCall:
    return ToolCall(name=names.from_provider(part.tool_name), arguments=part.args_as_dict(), id=part.tool_call_id)


def refused(reason: str, error: str) -> ToolResult:
    """Return the result of a call that was not run."""
    failure = Failure(FailureClass.DIAGNOSTIC, reason, may_have_started=False, replay_safe=True)
    return ToolResult(success=False, error=error, failure=failure, audit=Audit(end="refused"))


def cancelled(call: ToolCall, took_ms: float) -> ToolResult:
    """Return the result of a call that was cancelled `took_ms` after its start."""
    failure = Failure(FailureClass.DIAGNOSTIC, "cancelled", may_have_started=True)
    audit = Audit(tool=call.name, call_id=call.id, duration_ms=took_ms, attempts=1, end="killed")
    return ToolResult(success=False, error="Cancelled before it finished.", failure=failure, audit=audit)


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
