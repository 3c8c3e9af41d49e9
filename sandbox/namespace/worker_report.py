"""`WorkerReport`: what the engine reads from the worker of a direct box.

The first message says, before any of the job's code runs, who the worker is and what it has used. All others are parts
of the report on the job. The kernel names the sender of each message (``SO_PASSCRED``, see unix(7)); messages of other
processes of the job, which have inherited the socket, are dropped.
"""

import json
import socket

from sandbox import worker
from sandbox.wire import results

_READS_PER_WAKE = 16  # limited so that a flood of messages does not block the event loop


class WorkerReport:
    """Receives the messages of a worker. `channel` is the engine's end of the socket, which must not block."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._first = bytearray()
        self.before: dict[str, float] | None = None
        """What the worker had used before the job (`sandbox.namespace.confine.become`); None until it said so."""
        self.problem = ""
        """Why the worker could not become one; "" if it could."""
        self.pid = -1
        """The worker's pid; -1 until it announced itself."""
        self.frame = bytearray()
        """The part of the report that has been received."""

    def read(self, most: int = _READS_PER_WAKE) -> bool:
        """Read up to `most` of the available messages. Return False at the end of the stream."""
        for _ in range(most):
            try:
                data, ancillary, _, _ = self._channel.recvmsg(results.READ, results.ANCILLARY)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._take(data, results.sender(ancillary))
        return True

    @property
    def complete(self) -> bool:
        """Whether the whole report has been received."""
        return results.is_frame(self.frame)

    def _take(self, data: bytes, sender: int) -> None:
        if self.before is None:
            self.pid = sender
            self._first += data
            if not results.is_frame(self._first):
                return
            size = worker.HEADER.size
            end = size + worker.unpack_head(bytes(self._first[:size]))[0]
            first = json.loads(self._first[size:end])
            if first.get("kind") != "ready":  # it could not be confined, so it got no job
                self.problem = str(first.get("why") or first.get("error") or first)
                return
            self.before = first
            data = bytes(self._first[end:])
        if sender == self.pid and len(self.frame) < results.MOST:
            self.frame += data
