"""`Outbox`: frames for the container's standard output, written without ever waiting for the reader.

Only process 1 has this descriptor open. The job prints to pipes that process 1 reads, and its output travels in a
separate kind of frame, so that no output can pass for an answer. Standard library only.
"""

import os
import select
import time
from collections import deque

from sandbox import worker

_ENOUGH = 256 << 10  # with this many bytes queued, the job's own pipes are no longer read
_READ = 1 << 16


class Outbox:
    """A queue of frames. `put` never blocks; `flush` writes as much as the pipe accepts."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._parts: deque[memoryview] = deque()
        self._held = 0

    @property
    def waiting(self) -> bool:
        return self._held > 0

    @property
    def full(self) -> bool:
        """Whether the reader is so far behind that nothing more should be queued."""
        return self._held >= _ENOUGH

    def put(self, header: worker.Message, body: bytes = b"") -> None:
        data = worker.pack(header, body)
        self._parts.append(memoryview(data))
        self._held += len(data)
        self.flush()

    def flush(self) -> None:
        """Write as much as the pipe accepts.

        Raises:
            EOFError: The engine has closed the other end.
        """
        while self._parts:
            part = self._parts.popleft()
            try:
                written = os.write(self.descriptor, part)
            except BlockingIOError:
                self._parts.appendleft(part)
                return
            except BrokenPipeError:
                raise EOFError from None
            self._held -= written
            if written < len(part):
                self._parts.appendleft(part[written:])

    def drain(self, orders: int, seconds: float) -> None:
        """Write everything that is queued. Frames that the engine sends in the meantime are too late and are dropped.

        Raises:
            EOFError: The engine is gone (`orders` has ended), or did not read everything within `seconds`.
        """
        poller = select.poll()
        poller.register(self.descriptor, select.POLLOUT)
        poller.register(orders, select.POLLIN)
        deadline = time.monotonic() + seconds
        while self.waiting:
            events = dict(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not events or (orders in events and not os.read(orders, _READ)):
                raise EOFError
            self.flush()
