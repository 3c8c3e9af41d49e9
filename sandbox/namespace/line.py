"""A line to a job that is a server and runs for long: its sockets, and signals to it."""

import asyncio
import os
from collections.abc import Sequence

from sandbox.namespace.running import RunningJob


class Line:
    """For one job, and the event loop it runs in. Close it always."""

    def __init__(self, ports: Sequence[int]) -> None:
        """ports: of the box's loopback, which the job will listen at."""
        self.ports = tuple(ports)
        self.folder: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """A descriptor of the folder with a socket for each port (`sandbox.namespace.inlets`), once the box has it."""
        self._running: RunningJob | None = None

    def opened(self, descriptors: Sequence[int]) -> None:
        """What came out of the box."""
        for descriptor in descriptors:
            if self.folder.done():
                os.close(descriptor)
            else:
                self.folder.set_result(descriptor)

    def attach(self, running: RunningJob) -> None:
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
