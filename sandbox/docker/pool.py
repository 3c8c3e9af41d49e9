"""`Pool`: containers of one shape, started ahead of their jobs."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from sandbox.docker.container import Container

_LOG = logging.getLogger("knackbox.sandbox")


class Pool:
    """Keeps `warm` containers ready once `refill` has been called.

    Args:
        make: Starts a container. It raises SandboxError if that fails, and is never cancelled half-way, which would
            leave a container behind.
        dispose: Starts removing a container that is no longer needed, and returns at once.
    """

    def __init__(
        self, make: Callable[[], Awaitable[Container]], dispose: Callable[[Container], object], warm: int
    ) -> None:
        self._make = make
        self._dispose = dispose
        self._warm = warm
        self._waiting: deque[Container] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._asking: deque[asyncio.Future[Container]] = deque()
        self._closed = False
        self.asked = 0
        self.kept_warm = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self) -> Container:
        """Return a waiting container, or the next one that becomes ready.

        Raises:
            SandboxError: The container could not be started.
        """
        self.asked += 1
        if self._waiting:
            return self._waiting.popleft()
        asking: asyncio.Future[Container] = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        if self._starting < len(self._asking):
            self._start()
        try:
            return await asking
        except asyncio.CancelledError:
            if asking.done() and not asking.cancelled() and asking.exception() is None:
                self._hand_out(asking.result())
            raise

    def give_back(self, container: Container) -> None:
        """Return a container that was acquired but has not received a job."""
        self._hand_out(container)

    def refill(self) -> None:
        """Start the missing containers in the background."""
        self.kept_warm = True
        while len(self._waiting) + self._starting - len(self._asking) < self._warm:
            self._start()

    async def close(self) -> None:
        """Remove the waiting containers. Pending requests still receive a container."""
        self._closed, self._warm = True, 0
        while self._waiting:
            self._dispose(self._waiting.popleft())
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self) -> None:
        self._starting += 1
        task = asyncio.ensure_future(self._start_one())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_one(self) -> None:
        try:
            container = await self._make()
        except Exception as problem:  # noqa: BLE001  (whoever waits must get any failure)
            self._starting -= 1
            self._fail(problem)
        else:
            self._starting -= 1
            self._hand_out(container)

    def _hand_out(self, container: Container) -> None:
        while self._asking:
            asking = self._asking.popleft()
            if not asking.done():
                asking.set_result(container)
                return
        if self._closed:
            self._dispose(container)
        else:
            self._waiting.append(container)

    def _fail(self, problem: Exception) -> None:
        while self._asking:
            asking = self._asking.popleft()
            if not asking.done():
                asking.set_exception(problem)
                return
        _LOG.warning("a container could not be started ahead of its job: %s", problem)
