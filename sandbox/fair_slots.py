"""At most N at once, and a fair queue behind: agents take turns, however many jobs each of them has sent."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.contract import Busy

_SMOOTHING = 0.1  # weight of the newest job in the moving average of how long a slot is held
_SHORTEST_WAIT_S = 0.05


class FairSlots:
    """`slots` at once, `waiting` in the queue. For one event loop."""

    def __init__(self, slots: int, waiting: int) -> None:
        self._free = slots
        self._slots = slots
        self._room = waiting
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._queued = 0
        self._held_s = _SHORTEST_WAIT_S

    @asynccontextmanager
    async def slot(self, agent: str) -> AsyncIterator[None]:
        """Wait for the agent's turn. Raises Busy, with when to come again, when the queue is full."""
        await self._take(agent)
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            yield
        finally:
            self._held_s += _SMOOTHING * (loop.time() - started - self._held_s)
            self._give_on()

    @property
    def retry_after_s(self) -> float:
        """When a slot should be free for one who is last in the queue, as things go now."""
        return max(_SHORTEST_WAIT_S, self._held_s * (self._queued + 1) / self._slots)

    async def _take(self, agent: str) -> None:
        if self._free:
            self._free -= 1
            return
        if self._queued >= self._room:
            raise Busy(
                f"All {self._slots} boxes are in use and {self._queued} jobs wait; try again in a moment.",
                retry_after=self.retry_after_s,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(agent, deque()).append(turn)
        self._queued += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came in the same moment: it goes on to the next
                self._give_on()
            else:
                self._forget(agent, turn)
            raise

    def _give_on(self) -> None:
        """The slot to the agent whose turn it is; it goes to the end of the line afterwards."""
        while self._queues:
            agent, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            self._queued -= 1
            if queue:
                self._queues[agent] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, agent: str, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(agent)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self._queued -= 1
            if not queue:
                del self._queues[agent]
