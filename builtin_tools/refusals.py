"""The two ways a built-in tool refuses before it has done anything."""

from engine.contract.failure import FailureClass, ToolFailure


def not_configured(message: str) -> ToolFailure:
    """FATAL: only a person can change it."""
    return ToolFailure(
        message,
        failure_class=FailureClass.FATAL,
        reason="not_configured",
        may_have_started=False,
        end="refused",
    )


def wrong_arguments(message: str) -> ToolFailure:
    """DIAGNOSTIC: what the schema cannot say, such as a field that one action needs and another does not."""
    return ToolFailure(message, reason="invalid_arguments", may_have_started=False, end="refused")
