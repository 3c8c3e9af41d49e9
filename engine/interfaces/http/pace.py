"""`Pace`: predicts when one of a limited number of slots becomes free, for an accurate ``Retry-After``."""

import math
from collections.abc import Hashable

from sandbox.promises import Promises

_SMOOTHING = 0.1  # weight of the newest duration in the moving average
_FIRST_GUESS_S = 0.1
_MIN_WAIT_S = 0.05
_MAX_WAIT_S = 60.0


class Pace:
    """A limited number of slots, with retry times for callers that find none free.

    Each refused caller receives a later retry time than the previous one. Some of the slots that become free are
    reserved for refused callers whose retry time has come. All times are in seconds, on any monotonic clock.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean_s = _FIRST_GUESS_S
        self._sum_of_starts = 0.0
        self._promises = Promises()
        self.taken = 0

    def admits(self, caller: Hashable, now: float) -> bool:
        """Return whether there is a slot for this caller now."""
        if self.taken >= self._slots:
            return False
        if not len(self._promises) or self._promises.keep(caller, now):
            return True
        reserved = min(self._promises.due(now), self._slots // 2)  # at most half, because some callers do not return
        return self.taken + reserved < self._slots

    def take(self, now: float) -> None:
        """Occupy a slot."""
        self.taken += 1
        self._sum_of_starts += now

    def free(self, since: float, now: float) -> None:
        """Release a slot that was occupied at the time `since`."""
        self.taken -= 1
        self._sum_of_starts -= since
        self._mean_s += _SMOOTHING * (now - since - self._mean_s)

    def retry_after_s(self, caller: Hashable, now: float) -> float:
        """Return how many seconds the caller should wait, and reserve a slot for the caller at that time."""
        age = now - self._sum_of_starts / self.taken if self.taken else 0.0
        before = sum(count for _, count in self._promises.counts(now))
        wait = min(max((before + 1) * max(self._mean_s, age) / self._slots, _MIN_WAIT_S), _MAX_WAIT_S)
        self._promises.make(caller, now + wait)
        return wait

    @property
    def unused(self) -> bool:
        """Whether no slot is occupied or reserved. If so, this object may be discarded."""
        return not self.taken and not len(self._promises)


def whole_seconds(wait_s: float) -> str:
    """Return a wait as the value of a ``Retry-After`` header."""
    return str(max(1, math.ceil(wait_s)))
