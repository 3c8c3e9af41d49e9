"""Connects the engine's flows to the job's loopback ports. Standard library only.

This is the container's side of `sandbox.docker.inlets`. The job can accept these connections, but cannot open any.
"""

import errno
import select
import socket
import time

from sandbox.docker.flows import Flows
from sandbox.docker.frames import Frame

_LOOPBACK = "127.0.0.1"
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.002, 0.05  # between attempts to connect to a job that does not listen yet


class JobConnections:
    """Opens connections to the job's ports. Retries until the job listens or the engine gives up. Never blocks."""

    def __init__(self, poller: select.poll, flows: Flows, ports: list[int]) -> None:
        self._poller = poller
        self._flows = flows
        self._ports = ports
        self._trying: dict[int, tuple[socket.socket, int, int]] = {}
        self._again: list[tuple[int, int]] = []
        self._pause = _FIRST_PAUSE_S
        self._due = 0.0

    def take(self, frame: Frame) -> None:
        """Process a frame that the engine sent for a flow.

        Raises:
            ProtocolError: The engine must not send this frame.
        """
        if "port" not in frame.header:
            self._flows.take(frame)
            return
        number, port = frame.header["flow"], frame.header["port"]
        self._flows.begin(number)
        if port not in self._ports:
            self._flows.end(number)
            return
        self._pause = _FIRST_PAUSE_S
        self._try(number, port)

    def tries(self, descriptor: int) -> bool:
        """Return whether this descriptor is a pending connection."""
        return descriptor in self._trying

    def move(self, descriptor: int) -> None:
        """Process an attempt to connect that has finished."""
        end, number, port = self._trying.pop(descriptor)
        self._poller.unregister(descriptor)
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            end.close()
            self._later(number, port)
        else:
            self._flows.connect(number, end)

    def try_again(self) -> float | None:
        """Retry failed connections after a pause. Return the seconds until the next retry; None if none is due."""
        if not self._again:
            return None
        wait = self._due - time.monotonic()
        if wait > 0:
            return wait
        again, self._again = self._again, []
        self._pause = min(_LAST_PAUSE_S, self._pause * 2)
        for number, port in again:
            if number in self._flows:
                self._try(number, port)
        return self._pause if self._again else None

    def _try(self, number: int, port: int) -> None:
        end = socket.socket()
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if end.connect_ex((_LOOPBACK, port)) in (0, errno.EINPROGRESS):
            self._trying[end.fileno()] = (end, number, port)
            self._poller.register(end, select.POLLOUT)
        else:
            end.close()
            self._later(number, port)

    def _later(self, number: int, port: int) -> None:
        if not self._again:
            self._due = time.monotonic() + self._pause
        self._again.append((number, port))
