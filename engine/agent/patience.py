"""`Patience`: decides how long a run waits for a model that is down, overloaded or out of quota."""

from engine.agent.clients.provider_failure import provider_failure
from engine.contract.failure import FailureClass, ToolFailure

FIRST_WAIT_S = 1.0  # doubled after each failed request
LONGEST_WAIT_S = 30.0


class Patience:
    """The waits for one response of the model."""

    def __init__(self, total_s: float, *, answered: bool) -> None:
        """Create the object for one outage.

        Args:
            total_s: How long to wait in all, in seconds.
            answered: Whether the model has answered in this run. A server that never answered is probably not
                configured correctly, so its return is not awaited.
        """
        self._left = total_s
        self._answered = answered
        self._next = FIRST_WAIT_S

    def wait_after(self, error: Exception) -> float | None:
        """Return the seconds to wait before the request is sent again; None if waiting is not worth while."""
        failure = provider_failure(str(error), error, "model")
        if failure.failure_class is not FailureClass.RETRYABLE or not (self._answered or _was_answered(failure)):
            return None
        wait = self._next if failure.retry_after is None else max(failure.retry_after, FIRST_WAIT_S)
        self._next = min(2 * self._next, LONGEST_WAIT_S)
        if wait > self._left:
            return None
        self._left -= wait
        return wait


def _was_answered(failure: ToolFailure) -> bool:
    """Return whether the server answered, such as with 429."""
    return failure.retry_after is not None or not failure.may_have_started
