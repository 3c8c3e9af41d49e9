"""`Backlog`: decides who may join a queue that is fair between agents and limits its callers' waits."""

from collections.abc import Mapping

from sandbox.promises import Promises

MAX_WAIT_S = 10.0  # most clients give up after 30 s, and an estimate may be wrong by a factor of two
SHED_ABOVE = 1.5  # times the longest wait: beyond it, the estimate by which the queue was filled was too low

_PROMISED = 1.25  # times the longest wait: how far the queue may grow for callers who return at the promised time
_SHORTEST_S = 0.05
_LONGEST_S = 60.0


class Backlog:
    """Decides who may wait. A refused caller is told when to return, and is admitted at that time.

    `waiting` is the number of queued jobs by agent, `interval_s` the time from one job's end to the next. All times are
    in seconds of one clock.
    """

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._promises = Promises()

    def returns(self, agent: str, now: float) -> bool:
        """Whether the agent returns at its promised time. Ask once for each job."""
        return self._promises.keep(agent, now)

    def admits(
        self, agent: str, waiting: Mapping[str, int], queued: int, interval_s: float, now: float, *, promised: bool
    ) -> bool:
        """Whether one more job of the agent may wait.

        `queued` is the length of the queue, `promised` the result of `returns`.
        """
        if promised:
            return queued * interval_s <= _PROMISED * self._max_wait_s
        # Half of the queue is open to all, so that no box is idle for a caller who never returns.
        if queued * interval_s <= self._max_wait_s / 2:
            return True
        return self.wait_s(agent, waiting, interval_s, now) <= self._max_wait_s

    def wait_s(self, agent: str, waiting: Mapping[str, int], interval_s: float, now: float) -> float:
        """Return how long one more job of the agent would wait when agents take turns, counting those due to return."""
        ahead = dict(waiting)
        if len(self._promises):
            for each, count in self._promises.counts(now):
                ahead[str(each)] = ahead.get(str(each), 0) + count
        own = ahead.pop(agent, 0) + 1
        return (own + sum(min(each, own) for each in ahead.values())) * interval_s

    def refuse(self, agent: str, waiting: Mapping[str, int], interval_s: float, now: float) -> tuple[float, float]:
        """Return the wait that is too long, and the time after which the agent should return, which is now promised."""
        wait = self.wait_s(agent, waiting, interval_s, now)
        # Leaves half of the longest wait to be spent in the queue, which absorbs errors of the estimate.
        retry_after = min(max(wait - self._max_wait_s / 2, _SHORTEST_S), _LONGEST_S)
        self._promises.make(agent, now + retry_after)
        return wait, retry_after
