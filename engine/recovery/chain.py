"""Fallback chains: the alternatives to a failed tool, and the arguments for calling them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.contract.failure import Failure, FailureClass, SuggestedCall

Mode = Literal["suggest", "auto"]

# FATAL failures that are not denials: something is missing or not configured, so another tool may work.
_NO_DENIAL = frozenset(
    {"missing_service", "not_configured", "configuration", "sandbox_unavailable", "not_supported", "invalid_schema"}
)


@dataclass(frozen=True, slots=True)
class ArgumentReference:
    """Refers to the value of an argument of the failed call."""

    argument: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """A tool to use instead of a failed one.

    Attributes:
        arguments: For each argument of the tool, an `ArgumentReference` to an argument of the failed call, or a literal
            JSON value.
        note: A sentence that tells the model how to use the tool.
        mode: ``suggest`` suggests the tool to the model, ``auto`` calls it.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    mode: Mode = "suggest"

    def arguments_for(self, failed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for calling the alternative. References to arguments that `failed` lacks are omitted."""
        made: dict[str, Any] = {}
        for name, value in self.arguments.items():
            if not isinstance(value, ArgumentReference):
                made[name] = value
            elif value.argument in failed:
                made[name] = failed[value.argument]
        return made

    def instead_of(self, failed: Mapping[str, Any]) -> SuggestedCall:
        """Return the call to make instead of one with these arguments."""
        return SuggestedCall(self.tool, self.arguments_for(failed), self.note)


Chains = Mapping[str, tuple[Alternative, ...]]


def may_fall_back(failure: Failure) -> bool:
    """Return whether it makes sense to use another tool after this failure.

    It makes no sense after a denial, which must not be worked around, or a failure that the model must correct or
    check.
    """
    if failure.failure_class is FailureClass.FATAL:
        return failure.reason in _NO_DENIAL
    return failure.failure_class in (FailureClass.RETRYABLE, FailureClass.UNKNOWN)
