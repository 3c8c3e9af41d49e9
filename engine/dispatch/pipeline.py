"""`Pipeline`: runs one call, from a name to exactly one result. `Pipeline.call` shows every stage in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from engine.contract.context import Produced, no_progress
from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.dispatch.attempt import Attempts
from engine.dispatch.audit_data import bounded
from engine.dispatch.ended import KILLED, OK, CallEnd, end_of, fault, killed, output_of, replayed, substituted
from engine.dispatch.in_flight import BeforeRun, InFlightCall, InFlightCalls
from engine.dispatch.parts import Parts
from engine.dispatch.plan import CallPlans
from engine.dispatch.private_arguments import recordable
from engine.dispatch.render import is_large, render
from engine.dispatch.threads import WorkerThreads
from engine.dispatch.validate import Validators
from engine.dispatch.watchdog import StallWatchdog
from engine.policy.access import DENIED, denial, no_module, why_not
from engine.policy.gate import GateRefused
from engine.policy.risk import risk_of
from engine.recovery.advise import REPLAN, advise
from engine.recovery.chain import Alternative, may_fall_back
from engine.recovery.classify import FailureFacts, classify
from engine.recovery.retry import without_unsafe_retry

_log = logging.getLogger("knackbox.dispatch")
T = TypeVar("T")

# Threads for the pipeline's own file and database work, separate from those of tools.
_ENGINE_THREADS = 4


class Pipeline:
    """Runs tool calls. An engine has one pipeline, which must be used in one event loop.

    There are two kinds of cancellation. `cancel(call_id)` stops one call, and its caller receives a result whose audit
    has the end ``killed``. If the awaiting task itself is cancelled, the tool is cancelled (boxes are killed), only
    the observers receive the result, and CancelledError propagates, as asyncio requires.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._plans = CallPlans(parts.access_guards, parts.guards)
        self._observers = (*(() if parts.recorder is None else (parts.recorder.observe,)), *parts.observers)
        self._registry = parts.registry
        self._bind = parts.bind
        self._clock = parts.clock
        self._secrets = parts.secrets
        self._in_flight = InFlightCalls(parts.clock, parts.new_id)
        self._validators = Validators()
        self._tool_threads = WorkerThreads("knackbox-tool")
        self._engine_threads = WorkerThreads("knackbox-engine", limit=_ENGINE_THREADS)
        self._attempts = Attempts(parts.clock, self._in_flight, parts.retrier, self._tool_threads, self._facts)
        self._watchdog = StallWatchdog(self._in_flight, stall_s=parts.stall_s)
        self._closed = False

    async def call(
        self,
        call: ToolCall,
        turn: Turn,
        *,
        progress: Callable[..., None] = no_progress,
        patient: bool = True,
        before_run: BeforeRun | None = None,
    ) -> ToolResult:
        """Run a call and return exactly one result, whatever the tool does.

        Args:
            call: The tool's name and arguments.
            turn: The turn that the call belongs to.
            progress: Called in the event loop with the progress and output that the tool reports while it runs.
            patient: Whether to retry when no box is free. If False, the call fails at once, and the failure says when
                to call again.
            before_run: Awaited with the tool's spec when the call has been admitted and is about to run. It is also
                awaited for an alternative tool. If it fails, the tool is not run.

        Raises:
            CancelledError: The awaiting task was cancelled. Nothing else is raised.
        """
        redirect = getattr(self._registry.static.get(call.name), "redirect", None)
        if redirect is not None:
            call = redirect(call) or call
        inflight = self._in_flight.start(call)
        inflight.patient, inflight.before_run = patient, before_run
        if not self._watchdog.awake:
            self._watchdog.wake()
        ended: CallEnd | None = None
        try:
            if self._secrets is not None:
                given, call = call, replace(call, arguments={}, context=None)  # recorded if this is cancelled
                call = await self._in_thread_if_large(given.arguments, partial(self._secrets.hidden, given))
                progress = self._secrets.listener(progress)
            ended = await self._reach_end(inflight, call, turn, progress)
            inflight.settled = True
            if not self._parts.cap.fits(ended.message, ended.error):
                await self._cap(ended, inflight, turn)
        except asyncio.CancelledError:
            awaited = inflight.uncancel()
            if not (awaited and ended is not None):
                _result_was_lost(inflight)
            ended = ended or killed(inflight)
            if not awaited:
                result = self._seal(inflight, call, turn, ended)
                self._keep(inflight, result)
                raise
        except Exception as error:  # noqa: BLE001 - the caller must get a result even if the engine fails
            _log.exception("The engine itself failed on call %s of %s.", inflight.call_id, inflight.name)
            ended = ended or fault(inflight, error)
        finally:
            self._in_flight.end(inflight)
        result = self._seal(inflight, call, turn, ended)
        if inflight.keyed or result.failure is not None:
            await self._store(inflight, result)
        return result

    async def _reach_end(
        self, inflight: InFlightCall, call: ToolCall, turn: Turn, progress: Callable[..., None]
    ) -> CallEnd:
        """Run the stages of a call, and return how it ended, without values of secrets."""
        try:
            ended = await self._run(inflight, call, turn, progress)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the one place where failures become results
            ended = await self._recover(inflight, call, turn, error)  # classify, advise, fall back
        if self._secrets is None:
            return ended
        return await self._in_thread_if_large((ended.output, ended.message), partial(self._secrets.redact, ended))

    async def _run(self, inflight: InFlightCall, call: ToolCall, turn: Turn, progress: Callable[..., None]) -> CallEnd:
        """Run the stages of a call and return how it ended, if it succeeded. Any failure is raised as an exception."""
        tool = None if self._closed else self._registry.static.get(call.name)
        if tool is None:
            tool = await self._look_up(call.name, turn)
        spec = inflight.spec = tool.spec
        plan = inflight.plan = self._plans.known.get(id(spec)) or self._plans.make(spec)
        request = inflight.request = GuardRequest(call, inflight.call_id, inflight.ts, spec, turn)
        await self._admit(inflight, request, plan.access_guards)
        self._validators.check(spec, call.arguments)
        # Rate limits, breakers, the record of destructive calls, and approval.
        await self._admit(inflight, request, plan.guards)
        if spec.idempotency_key_fields and self._parts.keyed is not None:
            first = await self._parts.keyed.earlier(request)
            if first is not None:
                return replayed(first)
            inflight.keyed = True
        if inflight.before_run is not None:
            await inflight.before_run(spec)
        ctx = inflight.ctx = self._bind(turn, inflight.call_id, progress)
        if call.context is not None:
            ctx = inflight.ctx = replace(ctx, tool_context=call.context)
        arguments = call.arguments if self._secrets is None else self._secrets.filled(spec, call.arguments)
        if plan.watched and self._parts.watched is not None:
            async with self._parts.watched.watching(ctx, request) as watched:
                returned = await self._attempts.run(inflight, tool, watched, arguments)
                inflight.settled = True
        else:
            returned = await self._attempts.run(inflight, tool, ctx, arguments)  # deadline, classify, retry
        inflight.settled = True
        large = is_large(returned.value if isinstance(returned, Produced) else returned)
        rendered = await self._engine_threads.run(partial(render, returned)) if large else render(returned)
        output, message, side_effects = rendered
        return CallEnd(OK, output, message, side_effects=side_effects)

    def clock_stopped(self, call_id: str) -> AbstractContextManager[None]:
        """Return a context in which the deadline of this call in flight stands still."""
        return self._in_flight.clock_stopped(call_id)

    def cancel(self, call_id: str) -> bool:
        """Cancel one call in flight. Call it in the event loop. Return False if there is nothing to cancel."""
        return self._in_flight.cancel(call_id)

    def cancel_all(self) -> int:
        """Cancel every call in flight and return how many were cancelled. Each caller receives a result."""
        return self._in_flight.cancel_all()

    async def aclose(self, grace_s: float = 5.0) -> None:
        """Refuse new calls, cancel those in flight, wait up to `grace_s` for their tools, and release the threads."""
        self._closed = True
        await self._in_flight.close(grace_s)
        if self._parts.keyed is not None:
            await self._parts.keyed.aclose()
        self._watchdog.close()
        self._tool_threads.close()
        self._engine_threads.close()

    async def _in_thread_if_large(self, value: Any, function: Callable[[], T]) -> T:
        """Call the function, in a thread if the value that it reads is large."""
        return await self._engine_threads.run(function) if is_large(value) else function()

    def _audit_data(self, added: dict[str, Any]) -> dict[str, Any]:
        if self._secrets is None:
            return bounded(added)
        # Redacted before texts are cut, and again because other objects become text.
        return self._secrets.audit_data(bounded(self._secrets.audit_data(added)))

    async def _look_up(self, name: str, turn: Turn) -> Tool:
        """Find a tool that is not static.

        Raises:
            ToolFailure: There is no such tool. The message names the three most similar ones that the turn may call.
        """
        if self._closed:
            raise refusal("The engine is closed; nothing was run.", "closed", FailureClass.FATAL)
        reason = no_module(name, turn)
        if reason:  # a module outside the persona is neither asked nor started
            raise refusal(denial(name, reason), DENIED, FailureClass.FATAL)
        tool = await self._registry.find(name)
        if tool is None:
            near = await self._nearest(name, turn)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise refusal(f"There is no tool called {name!r}; nothing was run.{hint}", "unknown_tool")
        return tool

    async def _nearest(self, name: str, turn: Turn) -> list[str]:
        """Return the names of this turn's tools that are most similar to `name`."""
        if self._parts.offered is None:
            return await self._registry.nearest(name, turn=turn, may_know=lambda spec: not why_not(spec, turn))
        return await self._parts.offered.nearest(turn, name)

    async def _offered(self, turn: Turn, alternatives: Sequence[Alternative]) -> Collection[str] | None:
        """Return the names of the alternatives that the turn offers, or None if `Parts.offered` is None."""
        if self._parts.offered is None or not alternatives:
            return None
        return await self._parts.offered.specs(turn, {each.tool for each in alternatives})

    def _can_replan(self, turn: Turn) -> bool:
        tool = self._registry.static.get(REPLAN)
        return tool is None or not why_not(tool.spec, turn)

    async def _admit(self, inflight: InFlightCall, request: GuardRequest, guards: Sequence[Guard]) -> None:
        """Ask the guards in order.

        Raises:
            ToolFailure: A guard refuses the call.
        """
        for guard in guards:
            waiting = guard.admit(request)
            if waiting is not None:
                await waiting
            inflight.admitted += 1

    async def _store(self, inflight: InFlightCall, result: ToolResult) -> None:
        """Wait until the result of a keyed call and the record of a failed call are stored."""
        try:
            kept = self._keep(inflight, result)
            if kept is not None:
                await kept
            if result.failure is not None:
                await self._put_on_record(result)
        except asyncio.CancelledError:
            _result_was_lost(inflight)
            raise

    def _keep(self, inflight: InFlightCall, result: ToolResult) -> Awaitable[None] | None:
        """Start storing the result of a keyed call, for later calls with the same key."""
        if not inflight.keyed or self._parts.keyed is None or inflight.request is None:
            return None
        unknown = inflight.started and result.audit.end == KILLED
        return self._parts.keyed.store(inflight.request, None if unknown else result)

    def _facts(self, inflight: InFlightCall) -> FailureFacts:
        spec = inflight.spec
        return FailureFacts(
            spec is not None and spec.replay_safe, inflight.started, inflight.out_of_time, self._clock.now()
        )

    async def _recover(self, inflight: InFlightCall, call: ToolCall, turn: Turn, error: BaseException) -> CallEnd:
        """Classify an exception, and return the failure with advice. An alternative tool may be suggested or called."""
        found = classify(error, self._facts(inflight))
        failure = without_unsafe_retry(found)
        name = inflight.spec.name if inflight.spec is not None else inflight.name
        chains = self._parts.chains if may_fall_back(failure) else None
        alternatives = await self._engine_threads.run(partial(chains.alternatives, name)) if chains is not None else ()
        offered = await self._offered(turn, alternatives)
        suggestion = ""
        if chains is not None:
            suggestion = await self._engine_threads.run(partial(chains.suggestion, name, call.arguments, offered))
            possible = [each for each in alternatives if offered is None or each.tool in offered]
            failure = replace(failure, alternatives=tuple(each.instead_of(call.arguments) for each in possible))
        text = advise(
            name,
            error,
            failure,
            attempts=inflight.attempts,
            timeout_s=inflight.spec.timeout_s if inflight.spec is not None else 0.0,
            held_back=failure is not found,
            replan=self._can_replan(turn),
            instead=bool(suggestion),
        )
        ended = CallEnd(end_of(error, inflight), output_of(error), error=text, failure=failure, cause=found)
        if isinstance(error, GateRefused):
            ended.message = str(error)
        for number, alternative in enumerate(alternatives, 1):
            if alternative.mode == "auto" and (offered is None or alternative.tool in offered):
                # A separate call, with its own deadline and audit.
                call_id = f"{inflight.call_id}-instead-{number}"
                made = ToolCall(alternative.tool, alternative.arguments_for(call.arguments), call_id, call.context)
                instead = await self.call(made, turn, before_run=inflight.before_run)
                if instead.success:
                    return substituted(name, found, alternative, instead)
                ended.error += f"\n`{alternative.tool}` was tried instead and failed too: {instead.error}"
        if suggestion:
            ended.error += f"\n{suggestion}"
        return ended

    async def _cap(self, ended: CallEnd, inflight: InFlightCall, turn: Turn) -> None:
        """Shorten texts that are too long for the model."""
        cap = self._parts.cap
        for attribute in ("message", "error"):
            text: str | None = getattr(ended, attribute)
            if text and not cap.fits(text):
                workspace = self._bind(turn, inflight.call_id, no_progress).workspace
                cut = await self._engine_threads.run(partial(cap.cut, text, inflight.call_id, workspace))
                setattr(ended, attribute, cut)

    async def _put_on_record(self, result: ToolResult) -> None:
        """Wait until a failed call is recorded. If that fails, the error is logged, and the result stays the same."""
        if self._parts.recorder is None or self._closed:
            return
        try:
            await self._parts.recorder.record_now()
        except Exception:  # noqa: BLE001 - the store of the recorder may raise anything
            audit = result.audit
            _log.exception("The failure of %s (call %s) could not be recorded.", audit.tool, audit.call_id)

    def _seal(self, inflight: InFlightCall, call: ToolCall, turn: Turn, ended: CallEnd) -> ToolResult:
        """Build the result with its audit, and notify the guards that admitted the call and every observer."""
        if inflight.plan is not None:
            for admissions, notify in inflight.plan.listeners:
                if inflight.admitted >= admissions:
                    notify(inflight.request, ended.cause, ran=inflight.started)
        duration_ms = (self._clock.monotonic() - inflight.t0) * 1000.0
        name = inflight.spec.name if inflight.spec is not None else inflight.name
        risk = (
            risk_of(inflight.spec, call.arguments)
            if inflight.request is not None and inflight.spec is not None
            else "LOW"
        )
        data = self._audit_data(inflight.ctx.audit) if inflight.ctx is not None and inflight.ctx.audit else {}
        audit = Audit(name, inflight.call_id, inflight.ts, duration_ms, inflight.attempts, ended.end, risk, data)
        result = ToolResult(
            ended.failure is None,
            ended.output,
            ended.message,
            ended.error,
            ended.failure,
            ended.side_effects,
            audit,
        )
        seen, shown = call, result
        if inflight.spec is not None and inflight.spec.private_arguments:
            seen, shown = recordable(call, result, inflight.spec)
        for observer in self._observers:
            try:
                observer(seen, shown, turn)
            except Exception:  # noqa: BLE001 - observers may be third-party code
                _log.exception("An observer failed on call %s of %s.", inflight.call_id, name)
        return result


def _result_was_lost(inflight: InFlightCall) -> None:
    """Run the tool's callbacks for a result that cannot be delivered (`CallContext.on_undelivered`), once."""
    callbacks = inflight.ctx.on_undelivered if inflight.ctx is not None else []
    while callbacks:
        callback = callbacks.pop(0)
        try:
            callback()
        except Exception:  # noqa: BLE001 - tools may be third-party code
            _log.exception("A callback of call %s for an undelivered result failed.", inflight.call_id)
