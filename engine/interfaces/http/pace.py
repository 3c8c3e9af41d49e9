"""`Pace`: how soon one of a limited number of places comes free, for a ``Retry-After`` that is true."""

import math
from collections.abc import Hashable

from sandbox.promises import Promises

_SMOOTHING = 0.1  # weight of the newest stay in the moving average
_FIRST_GUESS_S = 0.1
_SHORTEST_S = 0.05
_LONGEST_S = 60.0


class Pace:
    """Places that are taken for a while each. Who finds none is told when to come back, each refused caller later than
    the one before; some of the places that come free meanwhile are kept for them. Times in seconds, on any clock.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._mean_s = _FIRST_GUESS_S
        self._sum_of_starts = 0.0
        self._promises = Promises()
        self.taken = 0

    def admits(self, caller: Hashable, now: float) -> bool:
        """Whether there is a place for this caller now."""
        if self.taken >= self._places:
            return False
        if not len(self._promises) or self._promises.keep(caller, now):
            return True
        kept = min(self._promises.due(now), self._places // 2)  # never all: some do not come back
        return self.taken + kept < self._places

    def take(self, now: float) -> None:
        self.taken += 1
        self._sum_of_starts += now

    def free(self, since: float, now: float) -> None:
        """Give back a place. since: when it was taken."""
        self.taken -= 1
        self._sum_of_starts -= since
        self._mean_s += _SMOOTHING * (now - since - self._mean_s)

    def retry_after_s(self, caller: Hashable, now: float) -> float:
        """When the caller is to come back; the time is now promised to it."""
        age = now - self._sum_of_starts / self.taken if self.taken else 0.0
        before = sum(count for _, count in self._promises.counts(now))
        wait = min(max((before + 1) * max(self._mean_s, age) / self._places, _SHORTEST_S), _LONGEST_S)
        self._promises.make(caller, now + wait)
        return wait

    @property
    def unused(self) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not self.taken and not len(self._promises)


def whole_seconds(wait_s: float) -> str:
    """As the header ``Retry-After`` has it."""
    return str(max(1, math.ceil(wait_s)))
