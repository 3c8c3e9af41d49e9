"""Failures and their four classes. The class decides what happens next (`engine.recovery`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class FailureClass(StrEnum):
    """What to do about a failure.

    Attributes:
        RETRYABLE: Try again.
        FATAL: Make a new plan.
        DIAGNOSTIC: The model can correct the call.
        UNKNOWN: Not classified. The failure is logged, so that a person can look into it.
    """

    RETRYABLE = "RETRYABLE"
    FATAL = "FATAL"
    DIAGNOSTIC = "DIAGNOSTIC"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class SuggestedCall:
    """A call to make instead of one that failed. `note` tells a model how to use the tool; it may be empty."""

    tool: str
    arguments: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a call, with its failure class.

    Attributes:
        reason: A short, stable code such as ``"invalid_arguments"`` or ``"timeout"``. `ToolResult.error` has the
            description for people.
        retry_after: Seconds to wait before a retry, if the remote service specified one.
        may_have_started: Whether the tool's effect may already have happened.
        replay_safe: Whether the same call can be repeated without harm.
        alternatives: Calls to make instead, best first. The description for people names them too.
    """

    failure_class: FailureClass
    reason: str
    retry_after: float | None = None
    may_have_started: bool = True
    replay_safe: bool = False
    alternatives: tuple[SuggestedCall, ...] = field(default=(), compare=False)


class ToolFailure(Exception):
    """An error whose failure class the tool itself states, instead of leaving it to the classification table.

    Any exception may have an attribute `most_repeats`, which limits how often the call is retried after it.

    Attributes:
        output: A structured value for programs, such as what is needed to try again.
        end: What to record as `Audit.end`: a value of `sandbox.contract.End`, or ``"refused"``.
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
        output: Any = None,
    ) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.reason = reason
        self.retry_after = retry_after
        self.may_have_started = may_have_started
        self.end = end
        self.output = output


REFUSED = "refused"  # the audit's `end` when nothing was run


def refusal(
    message: str,
    reason: str,
    failure_class: FailureClass = FailureClass.DIAGNOSTIC,
    *,
    retry_after: float | None = None,
) -> ToolFailure:
    """Create the failure of a call that was not run."""
    return ToolFailure(
        message,
        failure_class=failure_class,
        reason=reason,
        retry_after=retry_after,
        may_have_started=False,
        end=REFUSED,
    )


class ToolNotFound(LookupError):
    """The registry was asked for an unknown name. `engine.call` never raises this."""


class ConfigError(Exception):
    """A configuration value or file is invalid. The message says what, where, and how to fix it."""


class UnknownName(ConfigError):
    """A configured name, such as that of an allow-list or agent, does not exist. The message suggests similar names."""
