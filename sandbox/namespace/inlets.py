"""Inlets: sockets through which the engine connects to ports of a box's loopback, forwarded by process 1.

Inlets are the reverse of `sandbox.namespace.outlets`, for a job that is a server (a kernel). Process 1 listens on Unix
sockets in a file system that is unmounted as soon as the sockets exist. The engine reaches the sockets through a
descriptor of their folder. The job has no path to the sockets, and they disappear when the engine and the box have
ended.

The job never holds a socket whose other end is outside the box. Such a socket belongs to the network namespace of the
process that connected: the job could list the network devices there, and get a handle on that process. Standard library
only.
"""

import contextlib
import os
import select
import socket
import threading
from dataclasses import dataclass, field

from sandbox import worker
from sandbox.linux import syscalls
from sandbox.namespace import rootfs
from sandbox.wire.paths import INLET_NAME
from sandbox.wire.zmtp import Meter

_BACKLOG = 16
_READ = 1 << 16
_MOST = 64  # simultaneous connections
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.002, 0.05  # between attempts to connect to a job that does not listen yet
_LOOPBACK = "127.0.0.1"
_READY, _WRITABLE = select.EPOLLIN, select.EPOLLOUT


def open_all(ports: list[int], channel: socket.socket) -> "Carrier":
    """Listen on one socket per port, and send the sockets' folder to the engine. `Carrier.start` starts forwarding.

    Raises:
        OSError: A socket cannot be created.
    """
    folder = f"{rootfs.BOX}/inlets"
    os.mkdir(folder, 0o700)
    quiet = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", folder, "tmpfs", quiet, "size=64k,nr_inodes=64,mode=0700")
    listening: dict[int, tuple[socket.socket, int]] = {}
    try:
        for index, port in enumerate(ports, 1):
            end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            end.bind(f"{folder}/{INLET_NAME}-{index}")
            end.listen(_BACKLOG)
            listening[end.fileno()] = (end, port)
        seen = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        syscalls.unmount(folder)
        os.rmdir(folder)
    socket.send_fds(channel, [worker.pack({"kind": "outlets"})], [seen])
    os.close(seen)
    return Carrier(listening)


@dataclass(slots=True)
class _Direction:
    """One direction of a connection. `left` holds bytes not yet written; nothing more is read until it is empty."""

    source: socket.socket
    sink: socket.socket
    meter: Meter | None
    left: memoryview = field(default_factory=lambda: memoryview(b""))


class Carrier:
    """Forwards bytes between the inlets and the job's ports, in a thread of process 1, until the process ends."""

    def __init__(self, listening: dict[int, tuple[socket.socket, int]]) -> None:
        self._listening = listening
        self._flows: dict[
            int, tuple[_Direction, _Direction]
        ] = {}  # descriptor -> (the direction that reads from it, the direction that writes to it)
        self._early: list[tuple[socket.socket, int]] = []  # accepted before the job listened
        self._poller = select.epoll()

    def start(self) -> None:
        """Start the thread. Call this after giving up the capabilities, because each thread has its own."""
        for descriptor in self._listening:
            self._poller.register(descriptor, _READY)
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            for descriptor, _ in self._poller.poll(pause if self._early else -1):
                if descriptor in self._listening:
                    self._accept(*self._listening[descriptor])
                    pause = _FIRST_PAUSE_S
                elif descriptor in self._flows:
                    self._move(descriptor)
            if self._early:
                pause = min(_LAST_PAUSE_S, pause * 2)
                self._early = [(theirs, port) for theirs, port in self._early if not self._join(theirs, port)]

    def _accept(self, listening: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):
            theirs, _ = listening.accept()
            if len(self._flows) >= 2 * _MOST or len(self._early) >= _MOST:
                theirs.close()
                return
            theirs.setblocking(False)
            if not self._join(theirs, port):
                self._early.append((theirs, port))

    def _join(self, theirs: socket.socket, port: int) -> bool:
        """Connect to the job's server; return False when it does not listen yet.

        On the loopback interface a connection succeeds or fails at once.
        """
        try:
            ours = socket.create_connection((_LOOPBACK, port), timeout=_LAST_PAUSE_S)
        except OSError:
            return False
        ours.setblocking(False)
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        inward, outward = _Direction(theirs, ours, None), _Direction(ours, theirs, Meter())
        self._flows[theirs.fileno()] = (inward, outward)
        self._flows[ours.fileno()] = (outward, inward)
        for end in (theirs, ours):
            self._poller.register(end, _READY)
        return True

    def _move(self, descriptor: int) -> None:
        reads, writes = self._flows[descriptor]
        try:
            if writes.left:
                self._push(writes)
            if not reads.left:
                self._pull(reads)
        except OSError:
            self._part(reads)

    def _pull(self, flow: _Direction) -> None:
        """Read data from the flow's source, and forward it.

        Raises:
            OSError: The connection is lost, the stream has ended, or a message is too long.
        """
        try:
            data = flow.source.recv(_READ)
        except BlockingIOError:
            return
        if not data or (flow.meter is not None and not flow.meter.passes(data)):
            raise ConnectionError
        flow.left = memoryview(data)
        self._push(flow)

    def _push(self, flow: _Direction) -> None:
        waited = len(flow.left)
        with contextlib.suppress(BlockingIOError):
            flow.left = flow.left[flow.sink.send(flow.left) :]
        if flow.left or waited:
            self._listen_for(flow)

    def _listen_for(self, flow: _Direction) -> None:
        for end in (flow.source, flow.sink):
            reads, writes = self._flows[end.fileno()]
            # Edge-triggered while nothing may be read yet: a hang-up would otherwise be reported again and again.
            wanted = select.EPOLLET if reads.left else _READY
            wanted |= _WRITABLE if writes.left else 0
            self._poller.modify(end, wanted)

    def _part(self, flow: _Direction) -> None:
        for end in (flow.source, flow.sink):
            self._poller.unregister(end)
            del self._flows[end.fileno()]
            end.close()
