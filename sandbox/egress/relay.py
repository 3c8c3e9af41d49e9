"""Carry bytes between a box and its destination: one buffer per direction, half-closes kept, clocks watched.

Plain sockets rather than streams: what is in flight is never more than one buffer each way, because nothing is read
before what was read has been written.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable

_BUFFER = 64 << 10
_LINGER_NONE = struct.pack("ii", 1, 0)  # close with a reset
_TOUCH_SHARE = 8  # the idle clock is set back at most this often per idle time: a timer per chunk would cost

ENDED = "ended"
Rewrite = Callable[[bytes], bytes]


class Relay:
    """One carried connection. The sockets stay the caller's, who closes them.

    sent, received: bytes that went out of the box, and in. flushed: set once all the box has sent has been passed on.
    """

    def __init__(self, inside: socket.socket, outside: socket.socket, *, idle_s: float, deadline: float) -> None:
        """deadline: on the running loop's clock."""
        self._loop = asyncio.get_running_loop()
        self._inside, self._outside = inside, outside
        self._idle_s, self._deadline = idle_s, deadline
        self._touched = 0.0
        self.sent = 0
        self.received = 0
        self.flushed = asyncio.Event()

    async def run(self, first: bytes = b"", rewrite: Rewrite | None = None) -> str:
        """Until both sides have ended; how it went, in words. first: goes out ahead of what the box sends."""
        try:
            async with asyncio.timeout(None) as clock:
                self._touch(clock)
                return await self._both_ways(first, rewrite, clock)
        except TimeoutError:
            late = self._loop.time() >= self._deadline
            return "it took too long" if late else f"nothing was sent for {self._idle_s:g} s"

    async def _both_ways(self, first: bytes, rewrite: Rewrite | None, clock: asyncio.Timeout) -> str:
        how = ENDED
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._outwards(first, clock))
                both.create_task(self._inwards(rewrite, clock))
        except* (OSError, ValueError) as problems:
            how = f"it broke off: {problems.exceptions[0]}"
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
            await asyncio.sleep(0)  # sockets that are always ready would never give the loop back
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
    """Closing it will tell the other side that the stream broke off, rather than that it was complete."""
    with contextlib.suppress(OSError):  # it is closed or reset already
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)


def _no_more(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was quicker, and is gone
        end.shutdown(socket.SHUT_WR)
