"""`CallEnd`: how a call ended (success, failure, refusal or kill). The pipeline makes the call's result from it."""

from dataclasses import dataclass
from typing import Any

from engine.contract.failure import REFUSED, Failure, FailureClass, ToolFailure
from engine.contract.result import ToolResult
from engine.dispatch.in_flight import InFlightCall
from engine.recovery.chain import Alternative
from sandbox.contract import End

OK = End.OK.value
KILLED = End.KILLED.value
REPLAYED = "replayed"  # the result comes from an earlier call with the same key


@dataclass(slots=True)
class CallEnd:
    """How a call ended.

    Attributes:
        end: The value of `Audit.end`.
        cause: The failure as first classified, before the retry logic adjusted it.
    """

    end: str
    output: Any = None
    message: str | None = None
    error: str = ""
    failure: Failure | None = None
    side_effects: tuple[str, ...] = ()
    cause: Failure | None = None


def substituted(name: str, cause: Failure, alternative: Alternative, instead: ToolResult) -> CallEnd:
    """Return the `CallEnd` of a call whose result comes from an alternative tool. The message names that tool."""
    said = f"{name} failed ({cause.reason}); {alternative.tool} was used instead."
    message = f"{said}\n{instead.message}" if instead.message else said
    return CallEnd(instead.audit.end, instead.output, message, side_effects=instead.side_effects, cause=cause)


def replayed(first: ToolResult) -> CallEnd:
    """Return the `CallEnd` of a call that repeats the result of the first call with the same key."""
    return CallEnd(REPLAYED, first.output, first.message, first.error, first.failure, first.side_effects)


def killed(inflight: InFlightCall) -> CallEnd:
    """Return the `CallEnd` of a cancelled call."""
    replay_safe = inflight.spec is not None and inflight.spec.replay_safe
    unsure = inflight.started and not replay_safe
    text = f"{inflight.name} was cancelled before it finished."
    failure = Failure(
        FailureClass.DIAGNOSTIC,
        "cancelled",
        may_have_started=inflight.started,
        replay_safe=replay_safe or not inflight.started,
    )
    error = f"{text} The call may have had some effect; check whether it did before you repeat it." if unsure else text
    return CallEnd(KILLED, error=error, failure=failure, cause=failure)


def fault(inflight: InFlightCall, error: Exception) -> CallEnd:
    """Return the `CallEnd` of a call that failed because of an error in the engine, not in the tool."""
    text = f"The engine failed while handling {inflight.name}: {type(error).__name__}. See the engine's log."
    failure = Failure(FailureClass.UNKNOWN, "engine_fault", may_have_started=inflight.started)
    return CallEnd(End.ERROR.value, error=text, failure=failure, cause=failure)


def output_of(error: BaseException) -> Any:
    """Return the structured value that a tool attached to its failure, or None."""
    return error.output if isinstance(error, ToolFailure) else None


def end_of(error: BaseException, inflight: InFlightCall) -> str:
    """Return the value of `Audit.end` for a failure."""
    if isinstance(error, ToolFailure):
        return error.end
    if inflight.out_of_time:
        return End.TIMEOUT.value
    return End.ERROR.value if inflight.started else REFUSED
