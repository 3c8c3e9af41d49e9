"""`Backlog`: decides which callers may join the queue of `FairSlots`, so that none of them waits too long."""

from collections.abc import Mapping

from sandbox.promises import Promises

MAX_WAIT_S = 10.0  # most clients give up after 30 s, and an estimate may be wrong by a factor of two
SHED_ABOVE = 1.5  # a waiting job is refused after this multiple of the longest wait: the estimates were too low

_PROMISED = 1.25  # callers who return at the time they were given may wait for this multiple of the longest wait
_SHORTEST_S = 0.05
_LONGEST_S = 60.0


class Backlog:
    """Decides which callers may wait. A refused caller gets a time to return, and is admitted at that time.

    `waiting` is the number of queued jobs per agent, `interval_s` the time from one job's end to the next. All times
    are in seconds of one clock.

    Attributes:
        promised: The agents that were given a time to return.
    """

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._promises = Promises()
        self.promised = self._promises.due_by_caller

    def returns(self, agent: str, now: float) -> bool:
        """Return whether the agent has returned at the time that it was given. Call this once per job."""
        return self._promises.keep(agent, now)

    def admits(
        self, agent: str, waiting: Mapping[str, int], queued: int, interval_s: float, now: float, *, promised: bool
    ) -> bool:
        """Return whether one more job of the agent may wait.

        `queued` is the length of the queue, `promised` the result of `returns`.
        """
        if promised:
            return queued * interval_s <= _PROMISED * self._max_wait_s
        # Half of the queue is open to all, so that no box is idle for a caller who never returns.
        if queued * interval_s <= self._max_wait_s / 2:
            return True
        return self.wait_s(agent, waiting, interval_s, now) <= self._max_wait_s

    def wait_s(self, agent: str, waiting: Mapping[str, int], interval_s: float, now: float) -> float:
        """Return how long one more job of the agent would wait, in seconds. Agents take turns.

        Jobs of agents that are due to return count as waiting.
        """
        ahead = dict(waiting)
        if len(self._promises):
            for each, count in self._promises.counts(now):
                ahead[str(each)] = ahead.get(str(each), 0) + count
        own = ahead.pop(agent, 0) + 1
        return (own + sum(min(each, own) for each in ahead.values())) * interval_s

    def refuse(self, agent: str, waiting: Mapping[str, int], interval_s: float, now: float) -> tuple[float, float]:
        """Promise the agent a time to return. Return the expected wait and the delay until that time, in seconds."""
        wait = self.wait_s(agent, waiting, interval_s, now)
        # Leave half of the longest wait for queueing, which absorbs errors in the estimate.
        retry_after = min(max(wait - self._max_wait_s / 2, _SHORTEST_S), _LONGEST_S)
        self._promises.make(agent, now + retry_after)
        return wait, retry_after
