"""`ReadySize`: how many boxes to keep ready, from how often none was. Standard library only."""

import math

from sandbox.linux.readings import available_share

_FORGOTTEN_S = 20.0  # each period of this length without a miss takes one away
_LEAST_AVAILABLE = 0.15  # with less of the machine's memory available, no more than the minimum is kept


class ReadySize:
    """Grows by one with each request that found nothing ready, and shrinks again when there are none."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = max(least, most)
        self._size = least
        self._since = 0.0  # when the size was last changed

    def missed(self, now: float) -> None:
        """Note that nothing was ready at this time, in seconds on any clock."""
        self._size = min(self.at(now) + 1, self._most)
        self._since = now

    def at(self, now: float) -> int:
        """Return the size at this time."""
        if self._size > self._least:
            gone = int((now - self._since) / _FORGOTTEN_S)
            if gone:
                self._size = max(self._least, self._size - gone)
                self._since = now
            if self._size > self._least and available_share() < _LEAST_AVAILABLE:
                return self._least
        return self._size

    def shrinks_after(self) -> float:
        """Return for how many seconds the size stays as it is without a miss; infinity if it is the least."""
        return _FORGOTTEN_S if self._size > self._least else math.inf
