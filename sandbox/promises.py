"""`Promises`: the times at which refused callers were told to return, so that there is room for them when they do."""

from collections import deque
from collections.abc import Hashable, Iterator

_EARLY_S = 0.05  # clocks differ a little
_GRACE_S = 3.0  # ``Retry-After`` is in whole seconds, and a client that is told 1.1 returns after 2


class Promises:
    """One promise per refusal, by caller. It lapses when the caller is more than a few seconds late."""

    def __init__(self) -> None:
        self._due: dict[Hashable, deque[float]] = {}

    def make(self, caller: Hashable, due: float) -> None:
        """Record that the caller was told to return at `due`."""
        self._due.setdefault(caller, deque()).append(due)

    def keep(self, caller: Hashable, now: float) -> bool:
        """Whether the caller returns at its promised time. Uses the promise up."""
        self._lapse(caller, now)
        waiting = self._due.get(caller)
        if not waiting or waiting[0] > now + _EARLY_S:
            return False
        waiting.popleft()
        if not waiting:
            del self._due[caller]
        return True

    def counts(self, now: float) -> Iterator[tuple[Hashable, int]]:
        """Yield each caller with the number of its promises that have not lapsed."""
        for caller in list(self._due):
            self._lapse(caller, now)
            if caller in self._due:
                yield caller, len(self._due[caller])

    def due(self, now: float) -> int:
        """Return how many callers are due to return and have not."""
        for caller in list(self._due):
            self._lapse(caller, now)
        return sum(each <= now for waiting in self._due.values() for each in waiting)

    def __len__(self) -> int:
        """Return the number of promises, including lapsed ones that have not been removed yet."""
        return sum(map(len, self._due.values()))

    def _lapse(self, caller: Hashable, now: float) -> None:
        waiting = self._due.get(caller)
        while waiting and waiting[0] < now - _GRACE_S:
            waiting.popleft()
        if waiting is not None and not waiting:
            del self._due[caller]
