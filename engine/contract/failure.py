"""What went wrong, in four classes; the class decides what happens next (`engine.recovery`)."""

from dataclasses import dataclass
from enum import StrEnum


class FailureClass(StrEnum):
    """RETRYABLE: try again. FATAL: replan. DIAGNOSTIC: the model can correct it. UNKNOWN: logged for a person."""

    RETRYABLE = "RETRYABLE"
    FATAL = "FATAL"
    DIAGNOSTIC = "DIAGNOSTIC"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Failure:
    """One classified failure.

    reason: a stable, short code such as ``"invalid_arguments"`` or ``"timeout"``; text for people is in the result.
    retry_after: seconds the other side asked us to wait, if it did.
    may_have_started: whether the tool's effect may have happened already.
    replay_safe: whether the same call may be repeated without harm.
    """

    failure_class: FailureClass
    reason: str
    retry_after: float | None = None
    may_have_started: bool = True
    replay_safe: bool = False


class ToolFailure(Exception):
    """Raised by a tool that knows what its failure means; it overrides the classification table.

    end: what the audit says of why the call ended: a value of `sandbox.contract.End`, or ``"refused"``.

    Of any exception, an attribute `most_repeats` bounds how often the call is repeated after it.
    """

    def __init__(
        self,
        message: str,
        *,
        failure_class: FailureClass = FailureClass.DIAGNOSTIC,
        reason: str = "tool_failed",
        retry_after: float | None = None,
        may_have_started: bool = True,
        end: str = "error",
    ) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.reason = reason
        self.retry_after = retry_after
        self.may_have_started = may_have_started
        self.end = end


REFUSED = "refused"  # the audit's end when nothing was run


def refusal(
    message: str,
    reason: str,
    failure_class: FailureClass = FailureClass.DIAGNOSTIC,
    *,
    retry_after: float | None = None,
) -> ToolFailure:
    """The failure of a call that was not run."""
    return ToolFailure(
        message,
        failure_class=failure_class,
        reason=reason,
        retry_after=retry_after,
        may_have_started=False,
        end=REFUSED,
    )


class ToolNotFound(LookupError):
    """The registry was asked to execute a name it does not know. `engine.call` never raises this."""


class ConfigError(Exception):
    """Something a person wrote cannot be used. The message says what, where, and what to do."""


class UnknownName(ConfigError):
    """Somebody asked for a thing by a name that nothing has: an allow-list, an agent. The message names the nearest."""
