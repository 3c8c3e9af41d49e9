"""`ResultChannel`: the channel on which a worker reports the result of its job. Standard library only.

Only the process that received the job may report. The channel is a socket, which cannot be reopened through
``/proc/<pid>/fd``, and the kernel names the sender of each message (``SO_PASSCRED``, see unix(7)). Messages of other
processes of the job, which have inherited the socket, are dropped.
"""

import os
import socket
import struct

from sandbox import worker

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
# Room for the credentials only: the kernel closes any descriptors that a process of the job sends along.
ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size)
READ = 1 << 16
MOST_READS = 1000  # a socket holds fewer messages
MOST = worker.MAX_VALUE_BYTES + READ  # bytes that are kept


class ResultChannel:
    """The reading end of the channel. `worker_end` is the worker's descriptor, which the caller must close."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before anyone can write
        self._socket.setblocking(False)
        self.worker_end = theirs.detach()
        self._reporter = -1
        self.received = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept_from(self, pid: int) -> None:
        """Accept messages only from the process with this pid."""
        self._reporter = pid

    def drain(self) -> bool:
        """Read the available messages. Return False at the end of the stream.

        Reads a limited number of messages, so that a flood does not block the caller.
        """
        for _ in range(MOST_READS):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(READ, ANCILLARY)
            except BlockingIOError:
                return True
            except ConnectionResetError:  # closed by the worker's side with unread data
                return False
            if not data:
                return False
            if sender(ancillary) == self._reporter and len(self.received) < MOST:
                self.received += data
        return True

    @property
    def complete(self) -> bool:
        """Whether a whole frame has been received."""
        return is_frame(self.received)

    def close(self) -> None:
        self._socket.close()


def is_frame(data: bytearray) -> bool:
    """Return whether the data contains a whole frame."""
    size = worker.HEADER.size
    return len(data) >= size and len(data) >= size + sum(worker.unpack_head(bytes(data[:size])))


def sender(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the sender's pid, as seen from this process's pid namespace; 0 when unknown."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _CREDENTIALS.size:
            return int(_CREDENTIALS.unpack(data)[0])
    return 0


def of_this_process() -> tuple[ResultChannel, int]:
    """Return a channel on which this process may report, and the descriptor to write to.

    Used to rehearse the end of a job (`sandbox.linux.attend.rehearse`).
    """
    channel = ResultChannel()
    channel.accept_from(os.getpid())
    return channel, channel.worker_end
