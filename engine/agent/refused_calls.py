"""`RefusedCalls`: detects that a model repeats a call that is refused every time."""

from collections import Counter

from engine.agent.events import CallFinished
from engine.contract.canonical import digest
from engine.contract.failure import REFUSED, FailureClass

MOST = 3  # the run ends after this many refusals of one call


class RefusedCalls:
    """Counts the refused calls of one run, by tool and arguments.

    RETRYABLE refusals and calls that the loop skipped do not count. A successful call that may have changed something
    resets all counts.
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def note(self, finished: CallFinished, *, read_only: bool) -> bool:
        """Count the call if it was refused, and return whether this is the third refusal of the same call."""
        result = finished.result
        if result.success:
            if not read_only:
                self._times.clear()
            return False
        failure = result.failure
        if failure is None or result.audit.end != REFUSED or failure.failure_class is FailureClass.RETRYABLE:
            return False
        if failure.reason in {"budget", "skipped", "cancelled"}:
            return False
        identity = digest([finished.call.name, finished.call.arguments])
        self._times[identity] += 1
        return self._times[identity] >= MOST
