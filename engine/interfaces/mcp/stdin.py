"""`StdinLines`: the lines of stdin, read in the event loop, so that waiting for the next one can be ended."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 1 << 16
_FIRST_FREE = 3  # a copy of stdin must not land on a standard descriptor


class StdinLines:
    """An asynchronous iterator over the lines of a descriptor, which `close` ends as the end of the file does.

    It takes the place of a file that is read in a thread: a thread that waits for a line cannot be stopped, and keeps
    the process from ending. One line is read ahead at most, so a client is slowed down by the server.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that hold no line end
        self._ended = False
        self.closed = False  # by `close`, not by the other side
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        """End the iteration, also while it waits. Lines that were not taken yet are dropped."""
        self.closed = self._ended = True
        self._buffer.clear()
        self._wake()

    def __aiter__(self) -> "StdinLines":
        return self

    async def __anext__(self) -> str:
        while True:
            end = self._buffer.find(b"\n", self._searched) + 1
            if end or (self._ended and self._buffer):
                line = bytes(self._buffer[: end or None])
                del self._buffer[: len(line)]
                self._searched = 0
                return line.decode("utf-8", "replace")
            if self._ended:
                raise StopAsyncIteration
            self._searched = len(self._buffer)
            await self._readable()
            if not self._ended:
                self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:  # somebody else made it non-blocking and took what was there
            return
        except OSError:  # such as EIO of a terminal that is gone
            data = b""
        self._ended = not data
        self._buffer += data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        try:
            loop.add_reader(self._descriptor, self._wake)
        except PermissionError:  # epoll takes no plain files and not /dev/null; reading these does not wait
            return
        try:
            await self._waiting
        finally:
            loop.remove_reader(self._descriptor)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


@contextmanager
def stdin_lines() -> Iterator[StdinLines]:
    """The lines of this process's stdin. Meanwhile descriptor 0 is empty, for us and for programs that are started."""
    wire = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    try:
        empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(empty, 0)
        os.close(empty)
        try:
            yield StdinLines(wire)
        finally:
            os.dup2(wire, 0)
    finally:
        os.close(wire)
