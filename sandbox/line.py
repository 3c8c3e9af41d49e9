"""A line to a job that is a server and runs for long: its sockets, and signals to it. The same for every backend."""

import asyncio
import os
from collections.abc import Sequence
from typing import Protocol


class Signalled(Protocol):
    """A job while it runs, as far as signals go."""

    def signal(self, number: int) -> None: ...

    async def signalled(self) -> None: ...


class Line:
    """For one job, and the event loop it runs in. Close it always."""

    def __init__(self, ports: Sequence[int]) -> None:
        """ports: of the box's loopback, which the job will listen at."""
        self.ports = tuple(ports)
        self.folder: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """A descriptor of the folder with a socket for each port, `k-1` for the first, once they are listened at."""
        self._running: Signalled | None = None

    def opened(self, descriptors: Sequence[int]) -> None:
        """What the backend has opened; the descriptors are the line's from now on."""
        for descriptor in descriptors:
            if self.folder.done():
                os.close(descriptor)
            else:
                self.folder.set_result(descriptor)

    def attach(self, running: Signalled) -> None:
        self._running = running

    def signal(self, number: int) -> None:
        """Send a signal to the job and its children; nothing happens when it has ended."""
        if self._running is not None:
            self._running.signal(number)

    async def signalled(self) -> None:
        """Wait until every signal has been sent, or the job has ended."""
        if self._running is not None:
            await self._running.signalled()

    def close(self) -> None:
        """Give up the folder; connections that are open stay."""
        self._running = None
        if not self.folder.done():
            self.folder.cancel()
        elif not self.folder.cancelled():
            os.close(self.folder.result())
            self.folder = asyncio.get_running_loop().create_future()
            self.folder.cancel()
