"""Creates the failures with which a built-in tool refuses a call before it has done anything."""

from engine.contract.failure import FailureClass, ToolFailure, refusal


def not_configured(message: str) -> ToolFailure:
    """Return a FATAL failure: a setting or a service is missing, and only a person can change that."""
    return refusal(message, "not_configured", FailureClass.FATAL)


def wrong_arguments(message: str) -> ToolFailure:
    """Return a DIAGNOSTIC failure for a rule that the JSON Schema cannot express.

    An example is a field that one action needs and another does not.
    """
    return refusal(message, "invalid_arguments")
