"""`FairSlots`: a limited number of slots, with a queue that is fair between agents and limits how long they wait."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.backlog import MAX_WAIT_S, SHED_ABOVE, Backlog
from sandbox.contract import Busy

_SMOOTHING = 0.1  # weight of the newest job in the moving average of the time a slot is held
_FIRST_GUESS_S = 0.05
_MOST_SHED = 16  # most jobs refused per release, so that shedding does not block the event loop

_Turn = asyncio.Future[None]


class FairSlots:
    """Lets `slots` jobs run at once. Other jobs wait in one queue per agent, and the agents take turns.

    Use one object in only one event loop.

    A job whose expected wait exceeds `max_wait_s` is refused at once with `Busy`, which says when to return; a caller
    that returns at that time is admitted. Expected waits are estimated from how long jobs hold their slots. When waits
    turn out longer, the newest jobs of the longest queue are refused while they wait.
    """

    def __init__(self, slots: int, waiting: int, max_wait_s: float = MAX_WAIT_S) -> None:
        """Create the slots.

        Args:
            slots: The number of jobs that run at once.
            waiting: The maximum number of jobs in the queue, regardless of their expected wait.
            max_wait_s: The longest expected wait of an accepted job, in seconds.
        """
        self._free = slots
        self._slots = slots
        self._room = waiting
        self._max_wait_s = max_wait_s
        self._queues: OrderedDict[str, deque[_Turn]] = OrderedDict()
        self._queued = 0
        self._backlog = Backlog(max_wait_s)
        self._mean_held_s = _FIRST_GUESS_S
        self._running = 0
        self._sum_of_starts = 0.0

    @asynccontextmanager
    async def slot(self, agent: str) -> AsyncIterator[None]:
        """Wait for the agent's turn, and occupy a slot during the `async with` block.

        Raises:
            Busy: The wait would be too long. The exception says when to return.
        """
        loop = asyncio.get_running_loop()
        await self._take(agent, loop)
        started = loop.time()
        self._running += 1
        self._sum_of_starts += started
        try:
            yield
        finally:
            self._running -= 1
            self._sum_of_starts -= started
            self._mean_held_s += _SMOOTHING * (loop.time() - started - self._mean_held_s)
            self._give_on(loop.time())

    async def _take(self, agent: str, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        promised = agent in self._backlog.promised and self._backlog.returns(agent, now)
        if self._free:
            self._free -= 1
            return
        if not self._may_wait(agent, now, promised=promised):
            raise self._refusal(agent, now)
        turn: _Turn = loop.create_future()
        self._queues.setdefault(agent, deque()).append(turn)
        self._queued += 1
        timer = loop.call_later(SHED_ABOVE * self._max_wait_s, self._shed, agent, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:  # granted at the same moment
                self._give_on(loop.time())
            else:
                self._forget(agent, turn)
            raise
        finally:
            timer.cancel()

    def _may_wait(self, agent: str, now: float, *, promised: bool) -> bool:
        if self._queued >= self._room:
            return False
        interval = self._interval_s(now)
        return self._backlog.admits(agent, self._waiting(), self._queued, interval, now, promised=promised)

    def _waiting(self) -> dict[str, int]:
        return {agent: len(queue) for agent, queue in self._queues.items()}

    def _interval_s(self, now: float) -> float:
        """Return the expected seconds between two releases of a slot while all slots are in use."""
        age = now - self._sum_of_starts / self._running if self._running else 0.0
        return max(self._mean_held_s, age) / self._slots

    def _refusal(self, agent: str, now: float) -> Busy:
        wait, retry_after = self._backlog.refuse(agent, self._waiting(), self._interval_s(now), now)
        return Busy(
            f"All {self._slots} boxes are in use and {self._queued} jobs are waiting; this job would wait about "
            f"{wait:.1f} s. Try again in {retry_after:.1f} s.",
            retry_after=retry_after,
        )

    def _give_on(self, now: float) -> None:
        """Pass the slot to the agent whose turn it is, and move that agent to the end of the queue."""
        while self._queues:
            agent, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            self._queued -= 1
            if queue:
                self._queues[agent] = queue
            if not turn.done():
                turn.set_result(None)
                break
        else:
            self._free += 1
            return
        most = SHED_ABOVE * self._max_wait_s / self._interval_s(now)
        for _ in range(_MOST_SHED):
            if self._queued <= most:
                return
            agent = max(reversed(self._queues), key=lambda each: len(self._queues[each]))
            self._shed(agent, self._queues[agent][-1])

    def _shed(self, agent: str, turn: _Turn) -> None:
        """Refuse the agent's job that waits with the future `turn`."""
        self._forget(agent, turn)
        if not turn.done():
            turn.set_exception(self._refusal(agent, turn.get_loop().time()))

    def _forget(self, agent: str, turn: _Turn) -> None:
        queue = self._queues.get(agent)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self._queued -= 1
            if not queue:
                del self._queues[agent]
