"""The two ways a built-in tool refuses before it has done anything."""

from engine.contract.failure import FailureClass, ToolFailure, refusal


def not_configured(message: str) -> ToolFailure:
    """FATAL: only a person can change it."""
    return refusal(message, "not_configured", FailureClass.FATAL)


def wrong_arguments(message: str) -> ToolFailure:
    """DIAGNOSTIC: what the schema cannot say, such as a field that one action needs and another does not."""
    return refusal(message, "invalid_arguments")
