"""Creates the failures with which a built-in tool refuses a call before it has done anything."""

from engine.contract.failure import FailureClass, ToolFailure, refusal


def not_configured(message: str) -> ToolFailure:
    """Return a FATAL failure: a setting or a service is missing, and only a person can change that."""
    return refusal(message, "not_configured", FailureClass.FATAL)


def wrong_arguments(message: str) -> ToolFailure:
    """Return a DIAGNOSTIC failure for arguments that break a rule which the JSON Schema cannot express.

    An example of such a rule is that one action needs a field and another does not.
    """
    return refusal(message, "invalid_arguments")
