"""`ServiceHandle`: gives access to the sockets of a server that runs as a job, and sends signals to the job."""

import asyncio
import os
from collections.abc import Sequence
from typing import Protocol

from sandbox.bridge.bridge import Bridge


class Signalled(Protocol):
    """A running job that can be sent signals."""

    def signal(self, number: int) -> None: ...

    async def signalled(self) -> None: ...


class ServiceHandle:
    """The handle of one job, for use in the event loop that runs the job. Always close it."""

    def __init__(self, ports: Sequence[int], bridge: Bridge | None = None) -> None:
        """Create the handle of a job that will listen on these ports of the box's loopback.

        Args:
            ports: The ports.
            bridge: The bridge of the job, which the sandbox closes. A sandbox without bridges ignores it.
        """
        self.ports = tuple(ports)
        self.bridge = bridge
        self.folder: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """A descriptor of the folder with a socket for each port (`k-1`, `k-2`, …), set once the sockets listen."""
        self._running: Signalled | None = None

    def opened(self, descriptors: Sequence[int]) -> None:
        """Take over the descriptors that the backend has opened."""
        for descriptor in descriptors:
            if self.folder.done():
                os.close(descriptor)
            else:
                self.folder.set_result(descriptor)

    def attach(self, running: Signalled) -> None:
        self._running = running

    def signal(self, number: int) -> None:
        """Send a signal to the job and its children. Do nothing if the job has ended."""
        if self._running is not None:
            self._running.signal(number)

    async def signalled(self) -> None:
        """Wait until every signal has been sent, or the job has ended."""
        if self._running is not None:
            await self._running.signalled()

    def close(self) -> None:
        """Close the folder; open connections stay open."""
        self._running = None
        if not self.folder.done():
            self.folder.cancel()
        elif not self.folder.cancelled():
            os.close(self.folder.result())
            self.folder = asyncio.get_running_loop().create_future()
            self.folder.cancel()
