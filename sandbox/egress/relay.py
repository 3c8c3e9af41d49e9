"""`Relay`: forwards bytes between a box and its destination, with half-closes and timeouts.

Uses plain sockets instead of streams, with one buffer per direction: nothing is read before the previous data has been
written, so no more than one buffer is in transit each way.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable

_BUFFER = 64 << 10
_LINGER_NONE = struct.pack("ii", 1, 0)  # close with a reset
_TOUCH_SHARE = 8  # the idle timer is reset at most this often per idle time, since a timer per chunk would be slow

ENDED = "ended"
Rewrite = Callable[[bytes], bytes]


class Relay:
    """One forwarded connection. The caller owns and closes the sockets.

    Attributes:
        sent: Bytes that left the box.
        received: Bytes that entered the box.
        flushed: Set once everything the box has sent is forwarded.
    """

    def __init__(self, inside: socket.socket, outside: socket.socket, *, idle_s: float, deadline: float) -> None:
        """Create the relay. `run` forwards the bytes.

        Args:
            inside: The socket of the connection from the box.
            outside: The socket of the connection to the destination.
            idle_s: Seconds without data after which the connection is ended.
            deadline: The time at which the connection is ended in any case, on the running loop's clock.
        """
        self._loop = asyncio.get_running_loop()
        self._inside, self._outside = inside, outside
        self._idle_s, self._deadline = idle_s, deadline
        self._touched = 0.0
        self.sent = 0
        self.received = 0
        self.flushed = asyncio.Event()

    async def run(self, first: bytes = b"", rewrite: Rewrite | None = None) -> str:
        """Forward until both sides have closed, an error occurs, or time is up. Return a phrase that says which.

        `first` is sent before the box's own data.
        """
        try:
            async with asyncio.timeout(None) as clock:
                self._touch(clock)
                return await self._both_ways(first, rewrite, clock)
        except TimeoutError:
            late = self._loop.time() >= self._deadline
            return "the connection took too long" if late else f"nothing was sent for {self._idle_s:g} s"

    async def _both_ways(self, first: bytes, rewrite: Rewrite | None, clock: asyncio.Timeout) -> str:
        how = ENDED
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._outwards(first, clock))
                both.create_task(self._inwards(rewrite, clock))
        except* (OSError, ValueError) as problems:
            how = f"the connection broke: {problems.exceptions[0]}"
        return how

    async def _outwards(self, first: bytes, clock: asyncio.Timeout) -> None:
        if first:
            await self._loop.sock_sendall(self._outside, first)
            self.sent += len(first)
        buffer = memoryview(bytearray(_BUFFER))
        while size := await self._loop.sock_recv_into(self._inside, buffer):
            await self._loop.sock_sendall(self._outside, buffer[:size])
            self.sent += size
            self._touch(clock)
            await asyncio.sleep(0)  # sockets that are always ready would otherwise never yield to the loop
        _no_more(self._outside)
        self.flushed.set()

    async def _inwards(self, rewrite: Rewrite | None, clock: asyncio.Timeout) -> None:
        buffer = memoryview(bytearray(_BUFFER))
        while size := await self._loop.sock_recv_into(self._outside, buffer):
            self.received += size
            data = rewrite(bytes(buffer[:size])) if rewrite else buffer[:size]
            await self._loop.sock_sendall(self._inside, data)
            self._touch(clock)
            await asyncio.sleep(0)
        if rewrite:
            await self._loop.sock_sendall(self._inside, rewrite(b""))
        _no_more(self._inside)

    def _touch(self, clock: asyncio.Timeout) -> None:
        now = self._loop.time()
        if now - self._touched >= self._idle_s / _TOUCH_SHARE and not clock.expired():
            self._touched = now
            clock.reschedule(min(self._deadline, now + self._idle_s))


def reset_on_close(end: socket.socket) -> None:
    """Make this socket reset its connection when it is closed, so that the peer sees that the stream is incomplete."""
    with contextlib.suppress(OSError):  # the socket is already closed or reset
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)


def _no_more(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has disconnected already
        end.shutdown(socket.SHUT_WR)
