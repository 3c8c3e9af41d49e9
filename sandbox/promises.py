"""`Promises`: records when refused callers were told to return. A caller that returns at that time is admitted."""

from collections import deque
from collections.abc import Hashable, Iterator

_EARLY_S = 0.05  # clocks differ a little
_GRACE_S = 3.0  # ``Retry-After`` is in whole seconds, so a client returns after 2 s instead of 1.1 s


class Promises:
    """Stores one promise per refusal, by caller. A promise lapses when the caller is more than `_GRACE_S` late.

    Attributes:
        due_by_caller: The times promised to each caller. Read only.
    """

    def __init__(self) -> None:
        self.due_by_caller: dict[Hashable, deque[float]] = {}

    def make(self, caller: Hashable, due: float) -> None:
        """Record that the caller was told to return at the time `due`."""
        self.due_by_caller.setdefault(caller, deque()).append(due)

    def keep(self, caller: Hashable, now: float) -> bool:
        """Return whether the caller has returned at a promised time. If so, remove that promise."""
        self._lapse(caller, now)
        waiting = self.due_by_caller.get(caller)
        if not waiting or waiting[0] > now + _EARLY_S:
            return False
        waiting.popleft()
        if not waiting:
            del self.due_by_caller[caller]
        return True

    def counts(self, now: float) -> Iterator[tuple[Hashable, int]]:
        """Yield each caller that has promises which have not lapsed, with the number of these promises."""
        for caller in list(self.due_by_caller):
            self._lapse(caller, now)
            if caller in self.due_by_caller:
                yield caller, len(self.due_by_caller[caller])

    def due(self, now: float) -> int:
        """Return how many callers should have returned by now but have not."""
        for caller in list(self.due_by_caller):
            self._lapse(caller, now)
        return sum(each <= now for waiting in self.due_by_caller.values() for each in waiting)

    def __len__(self) -> int:
        """Return the number of promises, including lapsed ones that have not been removed yet."""
        return sum(map(len, self.due_by_caller.values()))

    def _lapse(self, caller: Hashable, now: float) -> None:
        waiting = self.due_by_caller.get(caller)
        while waiting and waiting[0] < now - _GRACE_S:
            waiting.popleft()
        if waiting is not None and not waiting:
            del self.due_by_caller[caller]
