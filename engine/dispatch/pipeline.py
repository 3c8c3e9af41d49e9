"""`Pipeline`: one call, from a name to exactly one result. `Pipeline.call` shows every stage in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from engine.contract.context import Produced, no_progress
from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.dispatch.attempt import Attempts
from engine.dispatch.audit_data import bounded
from engine.dispatch.ended import KILLED, CallEnd, end_of, fault, killed, replayed, substituted, succeeded
from engine.dispatch.flight import Flight
from engine.dispatch.flights import Flights
from engine.dispatch.large import is_large
from engine.dispatch.parts import Parts
from engine.dispatch.threads import WorkerThreads
from engine.dispatch.validate import Validators
from engine.dispatch.watchdog import StallWatchdog
from engine.policy.access import DENIED, denial, no_module, why_not
from engine.policy.gate import GateRefused
from engine.policy.risk import risk_of
from engine.recovery.advise import REPLAN, advise
from engine.recovery.chain import Alternative, may_fall_back
from engine.recovery.classify import FailureFacts, classify
from engine.recovery.retry import settle

_log = logging.getLogger("knackbox.dispatch")

# Threads for the pipeline's own file and database work, apart from those of tools.
_HOUSE_THREADS = 4


class Pipeline:
    """Runs tool calls. One per engine, used from one event loop.

    Cancelling: `cancel(call_id)` ends one call, and whoever awaits it gets a result whose end is ``killed``. When the
    awaiting task itself is cancelled nobody is left to take a result: the tool is cancelled (boxes are killed), the
    result goes to the observers, and CancelledError passes on, as asyncio needs it to.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._asked = (*parts.doors, *parts.guards)
        self._registry = parts.registry
        self._bind = parts.bind
        self._clock = parts.clock
        self._flights = Flights(parts.clock, parts.new_id)
        self._validators = Validators()
        self._tool_threads = WorkerThreads("knackbox-tool")
        self._house_threads = WorkerThreads("knackbox-house", limit=_HOUSE_THREADS)
        self._attempts = Attempts(parts.clock, self._flights, parts.retrier, self._tool_threads, self._facts)
        self._watchdog = StallWatchdog(self._flights, stall_s=parts.stall_s)
        self._closed = False

    async def call(
        self, call: ToolCall, turn: Turn, *, progress: Callable[..., None] = no_progress, patient: bool = True
    ) -> ToolResult:
        """Exactly one result, whatever the tool does. Raises only CancelledError, when the awaiting task is cancelled.

        progress: told what the tool reports while it runs, in the event loop. patient: False: when there is no free box
        the call fails at once, and its failure says when to come back; otherwise it is repeated then.
        """
        call = self._redirected(call)
        flight = self._flights.start(call)
        flight.patient = patient
        if not self._watchdog.awake:
            self._watchdog.wake()
        ended: CallEnd | None = None
        try:
            try:
                ended = await self._run(flight, call, turn, progress)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the one place where failures become results
                ended = await self._recover(flight, call, turn, error)  # classify, advise, fall back
            flight.settled = True
            if not self._fits(ended):
                await self._cap(ended, flight, turn)
            if ended.failure is not None:
                await self._note(flight, ended)
        except asyncio.CancelledError:
            heard = flight.take_back()
            if not (heard and ended is not None):
                _unheard(flight)
            ended = ended or killed(flight)
            if not heard:
                result = self._seal(flight, call, turn, ended)
                self._keep(flight, result)
                raise
        except Exception as error:  # noqa: BLE001 - a fault of the engine still owes the caller a result
            _log.exception("The engine itself failed on call %s of %s.", flight.call_id, flight.name)
            ended = ended or fault(flight, error)
        finally:
            self._flights.end(flight)
        result = self._seal(flight, call, turn, ended)
        kept = self._keep(flight, result)
        if kept is not None:
            await kept
        return result

    async def _run(self, flight: Flight, call: ToolCall, turn: Turn, progress: Callable[..., None]) -> CallEnd:
        """Every stage of a call that goes well. Raises what keeps it from that."""
        tool = await self._look_up(flight, turn)
        flight.request = GuardRequest(call, flight.call_id, flight.ts, tool.spec, turn)
        await self._admit(flight, self._parts.doors)  # who may call it at all; others hear nothing of its arguments
        self._validators.check(tool.spec, call.arguments)
        await self._admit(flight, self._parts.guards)  # limits, breakers, the record of what is destructive, people
        first = await self._first_with_its_key(flight)
        if first is not None:
            return replayed(first)
        ctx = flight.ctx = self._bind(turn, flight.call_id, progress)
        if call.context is not None:
            ctx = flight.ctx = replace(ctx, tool_context=call.context)
        returned = await self._attempts.run(flight, tool, ctx, call.arguments)  # deadline, classify, retry
        flight.settled = True
        if is_large(returned.value if isinstance(returned, Produced) else returned):
            return await self._house_threads.run(partial(succeeded, returned))
        return succeeded(returned)

    def cancel(self, call_id: str) -> bool:
        """Cancel one call in flight, from the event loop. False when there is nothing (left) to cancel."""
        return self._flights.cancel(call_id)

    def cancel_all(self) -> int:
        """Cancel every call in flight; each waiter gets its result. How many were cancelled."""
        return self._flights.cancel_all()

    async def aclose(self, grace_s: float = 5.0) -> None:
        """Refuse new calls, cancel those in flight, wait up to `grace_s` for their tools to stop, let threads go."""
        self._closed = True
        await self._flights.close(grace_s)
        if self._parts.keyed is not None:
            await self._parts.keyed.aclose()
        self._watchdog.close()
        self._tool_threads.close()
        self._house_threads.close()

    def _redirected(self, call: ToolCall) -> ToolCall:
        """The call that a call of a redirecting tool stands for."""
        redirect = getattr(self._registry.find_static(call.name), "redirect", None)
        return (redirect(call) if redirect is not None else None) or call

    async def _look_up(self, flight: Flight, turn: Turn) -> Tool:
        """The tool. Raises ToolFailure, naming the three nearest that the turn may call, when there is none."""
        if self._closed:
            raise refusal("The engine is closed; nothing was run.", "closed", FailureClass.FATAL)
        tool = self._registry.find_static(flight.name)
        if tool is None:
            reason = no_module(flight.name, turn)
            if reason:  # a module that is not theirs is neither asked nor started
                raise refusal(denial(flight.name, reason), DENIED, FailureClass.FATAL)
            tool = await self._registry.find(flight.name)
        if tool is None:
            near = await self._nearest(flight.name, turn)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise refusal(f"There is no tool called {flight.name!r}; nothing was run.{hint}", "unknown_tool")
        flight.spec = tool.spec
        return tool

    async def _nearest(self, name: str, turn: Turn) -> list[str]:
        """The names of this turn's tools that are most like this one."""
        if self._parts.offered is None:
            return await self._registry.nearest(name, turn=turn, may_know=lambda spec: not why_not(spec, turn))
        return await self._parts.offered.nearest(turn, name)

    async def _offered(self, turn: Turn, alternatives: Sequence[Alternative]) -> Collection[str] | None:
        """Those of the alternatives that the turn offers; None where that is not to be looked at."""
        if self._parts.offered is None or not alternatives:
            return None
        return await self._parts.offered.specs(turn, {each.tool for each in alternatives})

    def _can_replan(self, turn: Turn) -> bool:
        tool = self._registry.find_static(REPLAN)
        return tool is None or not why_not(tool.spec, turn)

    async def _admit(self, flight: Flight, guards: Sequence[Guard]) -> None:
        """Ask these guards. Raises the ToolFailure of the first that refuses."""
        assert flight.request is not None  # noqa: S101 -- for the type checker: it was looked up
        for guard in guards:
            waiting = guard.admit(flight.request)
            if waiting is not None:
                await waiting
            flight.admitted += 1

    async def _first_with_its_key(self, flight: Flight) -> ToolResult | None:
        """What came of an earlier call with the same key; None when this one is to run."""
        keyed, request = self._parts.keyed, flight.request
        if keyed is None or request is None or not request.spec.idempotency_key_fields:
            return None
        first = await keyed.earlier(request)
        flight.keyed = first is None
        return first

    def _keep(self, flight: Flight, result: ToolResult) -> Awaitable[None] | None:
        """Begin to keep what came of a call with a key, for those who come with it later."""
        if not flight.keyed or self._parts.keyed is None or flight.request is None:
            return None
        unknown = flight.started and result.audit.end == KILLED
        return self._parts.keyed.settle(flight.request, None if unknown else result)

    def _facts(self, flight: Flight) -> FailureFacts:
        spec = flight.spec
        return FailureFacts(
            spec is not None and spec.replay_safe, flight.started, flight.out_of_time, self._clock.now()
        )

    async def _recover(self, flight: Flight, call: ToolCall, turn: Turn, error: BaseException) -> CallEnd:
        """A failure: its class, the advice for it, and an alternative, suggested or run."""
        found = classify(error, self._facts(flight))
        failure = settle(found)
        name = flight.spec.name if flight.spec is not None else flight.name
        chains = self._parts.chains if may_fall_back(failure) else None
        alternatives = await self._house_threads.run(partial(chains.alternatives, name)) if chains is not None else ()
        offered = await self._offered(turn, alternatives)
        suggestion = ""
        if chains is not None:
            suggestion = await self._house_threads.run(partial(chains.suggestion, name, call.arguments, offered))
        text = advise(
            name,
            error,
            failure,
            attempts=flight.attempts,
            timeout_s=flight.spec.timeout_s if flight.spec is not None else 0.0,
            held_back=failure is not found,
            replan=self._can_replan(turn),
            instead=bool(suggestion),
        )
        ended = CallEnd(end_of(error, flight), error=text, failure=failure, cause=found)
        if isinstance(error, GateRefused):
            ended.message = str(error)
        for number, alternative in enumerate(alternatives, 1):
            if alternative.mode == "auto" and (offered is None or alternative.tool in offered):
                # A call of its own, with its own deadline and audit.
                call_id = f"{flight.call_id}-instead-{number}"
                made = ToolCall(alternative.tool, alternative.arguments_for(call.arguments), call_id, call.context)
                instead = await self.call(made, turn)
                if instead.success:
                    return substituted(name, found, alternative, instead)
                ended.error += f"\n`{alternative.tool}` was tried instead and failed too: {instead.error}"
        if suggestion:
            ended.error += f"\n{suggestion}"
        return ended

    def _fits(self, ended: CallEnd) -> bool:
        fits = self._parts.cap.fits
        return (ended.message is None or fits(ended.message)) and (not ended.error or fits(ended.error))

    async def _cap(self, ended: CallEnd, flight: Flight, turn: Turn) -> None:
        """Cut what is too long for the model."""
        cap = self._parts.cap
        for attribute in ("message", "error"):
            text: str | None = getattr(ended, attribute)
            if text and not cap.fits(text):
                workspace = self._bind(turn, flight.call_id, no_progress).workspace
                cut = await self._house_threads.run(partial(cap.cut, text, flight.call_id, workspace))
                setattr(ended, attribute, cut)

    async def _note(self, flight: Flight, ended: CallEnd) -> None:
        """Put a failure on the log for people. A log that fails is reported and costs the call nothing."""
        sink, failure = self._parts.failures, ended.failure
        if sink is None or failure is None or self._closed:
            return
        try:
            record = partial(sink.record, flight.name, failure.failure_class, failure.reason, ended.error)
            await self._house_threads.run(partial(record, ts=flight.ts, call_id=flight.call_id))
        except Exception:  # noqa: BLE001 - whatever the log's store raises
            _log.exception(
                "The failure of %s (call %s) could not be put on the failure log.", flight.name, flight.call_id
            )

    def _seal(self, flight: Flight, call: ToolCall, turn: Turn, ended: CallEnd) -> ToolResult:
        """The result with its audit, told to the guards that admitted the call and to every observer."""
        if flight.request is not None:
            for guard in self._asked[: flight.admitted]:
                guard.ended(flight.request, ended.cause, ran=flight.started)
        duration_ms = (self._clock.monotonic() - flight.t0) * 1000.0
        name = flight.spec.name if flight.spec is not None else flight.name
        risk = risk_of(flight.spec, call.arguments) if flight.request is not None and flight.spec is not None else "LOW"
        data = bounded(flight.ctx.audit) if flight.ctx is not None and flight.ctx.audit else {}
        audit = Audit(name, flight.call_id, flight.ts, duration_ms, flight.attempts, ended.end, risk, data)
        result = ToolResult(
            ended.failure is None,
            ended.output,
            ended.message,
            ended.error,
            ended.failure,
            ended.side_effects,
            audit,
        )
        for observer in self._parts.observers:
            try:
                observer(call, result, turn)
            except Exception:  # noqa: BLE001 - observers are other people's code
                _log.exception("An observer failed on call %s of %s.", flight.call_id, name)
        return result


def _unheard(flight: Flight) -> None:
    """Do what the tool wanted done when its result reaches nobody."""
    for undo in flight.ctx.if_unheard if flight.ctx is not None else ():
        try:
            undo()
        except Exception:  # noqa: BLE001 - tools are other people's code
            _log.exception("What call %s wanted done about its unheard result failed.", flight.call_id)
