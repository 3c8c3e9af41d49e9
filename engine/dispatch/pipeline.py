"""`Pipeline`: one call, from a name to exactly one result. `Pipeline.call` shows every stage in order."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from engine.contract.context import CallContext, Clock, no_progress
from engine.contract.failure import Failure, FailureClass, ToolFailure
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.dispatch.attempt import Attempts
from engine.dispatch.bind import BindContext
from engine.dispatch.cap import OutputCap
from engine.dispatch.flight import Flight
from engine.dispatch.flights import Flights
from engine.dispatch.render import render
from engine.dispatch.threads import WorkerThreads
from engine.dispatch.validate import Validators
from engine.dispatch.watchdog import DEFAULT_STALL_S, StallWatchdog
from engine.recovery.advise import advise
from engine.recovery.chain import Alternative, may_fall_back
from engine.recovery.classify import Facts, classify
from engine.recovery.fallback import FallbackChains
from engine.recovery.retry import Retrier, settle
from engine.registry.registry import Registry
from sandbox.contract import End

_log = logging.getLogger("knackbox.dispatch")

Observer = Callable[[ToolCall, ToolResult], None]

_OK = End.OK.value
REFUSED = "refused"  # the audit's end when nothing was run

# Threads for the pipeline's own file and database work, apart from those of tools.
_HOUSE_THREADS = 4


class FailureSink(Protocol):
    """Where failed calls are noted for people; `engine.stores.failure_log.FailureLog` is one. Calls block."""

    def record(
        self, tool: str, failure_class: FailureClass, reason: str, error_text: str, *, ts: str, call_id: str
    ) -> None: ...


def new_call_id() -> str:
    """64 random bits: enough to name the calls of one engine apart."""
    return secrets.token_hex(8)


@dataclass(slots=True)
class _Ended:
    """How a call ended, before it is audited."""

    end: str
    output: Any = None
    message: str | None = None
    error: str = ""
    failure: Failure | None = None
    side_effects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pipeline is made of. Only registry, bind and clock have no sensible default.

    chains: None runs without fallbacks. failures: None keeps no log of failures.
    observers: each is told of every call and its result, once, in the event loop: be quick. What one raises is
        logged and changes nothing. Cancelled waiters get no result, observers do.
    """

    registry: Registry
    bind: BindContext
    clock: Clock
    chains: FallbackChains | None = None
    failures: FailureSink | None = None
    observers: Sequence[Observer] = ()
    retrier: Retrier = field(default_factory=Retrier)
    cap: OutputCap = field(default_factory=OutputCap)
    new_id: Callable[[], str] = new_call_id
    stall_s: float = DEFAULT_STALL_S


class Pipeline:
    """Runs tool calls. One per engine, used from one event loop.

    Cancelling: `cancel(call_id)` ends one call, and whoever awaits it gets a result whose end is ``killed``. When the
    awaiting task itself is cancelled nobody is left to take a result: the tool is cancelled (boxes are killed), the
    result goes to the observers, and CancelledError passes on, as asyncio needs it to.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
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

    async def call(self, call: ToolCall, turn: Turn, *, progress: Callable[..., None] = no_progress) -> ToolResult:
        """Exactly one result, whatever the tool does. Raises only CancelledError, when the awaiting task is cancelled.

        progress: told what the tool reports while it runs, in the event loop.
        """
        flight = self._flights.start(call)
        if not self._watchdog.awake:
            self._watchdog.wake()
        ended: _Ended | None = None
        ctx: CallContext | None = None
        try:
            try:
                tool = await self._look_up(flight)
                self._validators.check(tool.spec, call.arguments)
                ctx = self._bind(turn, flight.call_id, progress)
                returned = await self._attempts.run(flight, tool, ctx, call.arguments)  # deadline, classify, retry
                flight.settled = True
                ended = _succeeded(returned)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the one place where failures become results
                ended = await self._recover(flight, call, turn, error)  # classify, advise, fall back
            flight.settled = True
            if not self._fits(ended):
                await self._cap(ended, flight, turn)
            if ended.failure is not None:
                await self._note(flight, ended)
        except asyncio.CancelledError:
            heard = flight.take_back()
            if ctx is not None and not (heard and ended is not None):
                _unheard(ctx)
            if ended is None:
                ended = _killed(flight)
            if not heard:
                self._seal(flight, call, ended)
                raise
        except Exception as error:  # noqa: BLE001 - a fault of the engine still owes the caller a result
            _log.exception("The engine itself failed on call %s of %s.", flight.call_id, flight.name)
            ended = ended or _fault(flight, error)
        finally:
            self._flights.end(flight)
        return self._seal(flight, call, ended)

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
        self._watchdog.close()
        self._tool_threads.close()
        self._house_threads.close()

    async def _look_up(self, flight: Flight) -> Tool:
        """The tool. Raises ToolFailure, naming the three nearest, when there is none of that name."""
        if self._closed:
            raise _refusal("The engine is closed; nothing was run.", FailureClass.FATAL, "closed")
        tool = self._registry.find_static(flight.name) or await self._registry.find(flight.name)
        if tool is None:
            near = await self._registry.nearest(flight.name)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise _refusal(
                f"There is no tool called {flight.name!r}; nothing was run.{hint}",
                FailureClass.DIAGNOSTIC,
                "unknown_tool",
            )
        flight.spec = tool.spec
        return tool

    def _facts(self, flight: Flight) -> Facts:
        spec = flight.spec
        return Facts(spec is not None and spec.replay_safe, flight.started, flight.out_of_time, self._clock.now())

    async def _recover(self, flight: Flight, call: ToolCall, turn: Turn, error: BaseException) -> _Ended:
        """A failure: its class, the advice for it, and an alternative, suggested or run."""
        found = classify(error, self._facts(flight))
        failure = settle(found)
        name = flight.spec.name if flight.spec is not None else flight.name
        text = advise(
            name,
            error,
            failure,
            attempts=flight.attempts,
            timeout_s=flight.spec.timeout_s if flight.spec is not None else 0.0,
            held_back=failure is not found,
        )
        ended = _Ended(_end_of(error, flight), error=text, failure=failure)
        chains = self._parts.chains
        if chains is None or not may_fall_back(failure):
            return ended
        alternatives = await self._house_threads.run(partial(chains.alternatives, name))
        for number, alternative in enumerate(alternatives, 1):
            if alternative.mode == "auto":
                # A call of its own, with its own deadline and audit.
                call_id = f"{flight.call_id}-instead-{number}"
                made = ToolCall(alternative.tool, alternative.arguments_for(call.arguments), call_id)
                instead = await self.call(made, turn)
                if instead.success:
                    return _substituted(name, failure, alternative, instead)
                ended.error += f"\n`{alternative.tool}` was tried instead and failed too: {instead.error}"
        suggestion = await self._house_threads.run(partial(chains.suggestion, name, call.arguments))
        if suggestion:
            ended.error += f"\n{suggestion}"
        return ended

    def _fits(self, ended: _Ended) -> bool:
        fits = self._parts.cap.fits
        return (ended.message is None or fits(ended.message)) and (not ended.error or fits(ended.error))

    async def _cap(self, ended: _Ended, flight: Flight, turn: Turn) -> None:
        """Cut what is too long for the model."""
        cap = self._parts.cap
        for attribute in ("message", "error"):
            text: str | None = getattr(ended, attribute)
            if text and not cap.fits(text):
                workspace = self._bind(turn, flight.call_id, no_progress).workspace
                cut = await self._house_threads.run(partial(cap.cut, text, flight.call_id, workspace))
                setattr(ended, attribute, cut)

    async def _note(self, flight: Flight, ended: _Ended) -> None:
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

    def _seal(self, flight: Flight, call: ToolCall, ended: _Ended) -> ToolResult:
        """The result with its audit, shown to every observer."""
        duration_ms = (self._clock.monotonic() - flight.t0) * 1000.0
        name = flight.spec.name if flight.spec is not None else flight.name
        audit = Audit(name, flight.call_id, flight.ts, duration_ms, flight.attempts, ended.end)
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
                observer(call, result)
            except Exception:  # noqa: BLE001 - observers are other people's code
                _log.exception("An observer failed on call %s of %s.", flight.call_id, name)
        return result


def _unheard(ctx: CallContext) -> None:
    for undo in ctx.if_unheard:
        try:
            undo()
        except Exception:  # noqa: BLE001 - tools are other people's code
            _log.exception("What call %s wanted done about its unheard result failed.", ctx.call_id)


def _succeeded(returned: Any) -> _Ended:
    output, message, side_effects = render(returned)
    return _Ended(_OK, output, message, "", None, side_effects)


def _substituted(name: str, failure: Failure, alternative: Alternative, instead: ToolResult) -> _Ended:
    """The success of an automatic alternative, which says whose it is."""
    said = f"{name} failed ({failure.reason}); {alternative.tool} was used instead."
    message = f"{said}\n{instead.message}" if instead.message else said
    return _Ended(instead.audit.end, instead.output, message, side_effects=instead.side_effects)


def _killed(flight: Flight) -> _Ended:
    replay_safe = flight.spec is not None and flight.spec.replay_safe
    unsure = flight.started and not replay_safe
    text = f"{flight.name} was cancelled before it finished."
    return _Ended(
        End.KILLED.value,
        error=f"{text} It may have happened in part; check first." if unsure else text,
        failure=Failure(
            FailureClass.DIAGNOSTIC,
            "cancelled",
            may_have_started=flight.started,
            replay_safe=replay_safe or not flight.started,
        ),
    )


def _fault(flight: Flight, error: Exception) -> _Ended:
    """A fault of the engine, not of the tool; the result says what can be said."""
    text = f"The engine failed while it handled {flight.name}: {type(error).__name__}. It is in the engine's log."
    failure = Failure(FailureClass.UNKNOWN, "engine_fault", may_have_started=flight.started)
    return _Ended(End.ERROR.value, error=text, failure=failure)


def _end_of(error: BaseException, flight: Flight) -> str:
    if isinstance(error, ToolFailure):
        return error.end
    if flight.out_of_time:
        return End.TIMEOUT.value
    return End.ERROR.value if flight.started else REFUSED


def _refusal(text: str, failure_class: FailureClass, reason: str) -> ToolFailure:
    return ToolFailure(text, failure_class=failure_class, reason=reason, may_have_started=False, end=REFUSED)
