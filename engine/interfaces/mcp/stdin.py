"""`StdinLines`: reads the lines of stdin in the event loop, so that waiting for the next line can be cancelled."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 1 << 16
_FIRST_FREE = 3  # the lowest descriptor for the copy of stdin; 0 to 2 are the standard streams


class StdinLines:
    """An asynchronous iterator over the lines of a file descriptor, until the end of the file or a call of `close`.

    It replaces reading a file in a thread, because a thread that waits for a line cannot be stopped and keeps the
    process from exiting. It reads ahead only a little, so a client cannot send faster than the server reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer known to contain no newline
        self._ended = False
        self.closed = False  # whether `close` was called; the end of the input does not set it
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        """End the iteration, even while it waits for a line. Lines that were not yet returned are dropped."""
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
        except BlockingIOError:  # another process made the descriptor non-blocking and read the data
            return
        except OSError:  # such as EIO of a closed terminal
            data = b""
        self._ended = not data
        self._buffer += data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        try:
            loop.add_reader(self._descriptor, self._wake)
        except PermissionError:  # epoll does not support regular files and /dev/null; reading them never blocks
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
    """Return a context manager that yields the lines of stdin.

    Until the context is exited, descriptor 0 is /dev/null in this process and its children, so that nothing else reads
    stdin.
    """
    original = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    try:
        empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(empty, 0)
        os.close(empty)
        try:
            yield StdinLines(original)
        finally:
            os.dup2(original, 0)
    finally:
        os.close(original)
