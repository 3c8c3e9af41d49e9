"""`EmptyBoxes`: creates boxes that have namespaces and a native process 1, but no worker yet. Standard library only.

A program of its own (`native/box_init.c`) creates them, so that the template forks once for each box, not twice, and so
that several boxes can be created while the template does something else.
"""

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass

from sandbox.forkserver.ready_size import ReadySize
from sandbox.linux import syscalls
from sandbox.namespace import process_one
from sandbox.namespace.process_one import OrderKind

_CONTROL_FD, _FIRST_PROGRAM_FD = 3, 64
_DESCRIPTORS = 4  # of a box that is ready
_LONGEST_S = 2.0  # for each of the two steps of creating a box; a template must answer its engine within 5 s
_MOST_DEAD = 8  # boxes that are killed while they are created, before the template gives up
_ERROR = struct.Struct("=i")
_LEAST_SPARE, _MOST_SPARE = 1, 8


@dataclass(slots=True)
class EmptyBox:
    """A box without a worker.

    Attributes:
        line: The socket that is connected to process 1.
        pidfd: A descriptor of process 1; -1 until it exists.
        shown: Descriptors of the box's /proc and of its tmpfs; () until it is isolated.
        channel: The two ends of the worker's channel: the engine's and the worker's; () until it is isolated.
    """

    line: socket.socket
    pidfd: int = -1
    shown: tuple[int, ...] = ()
    channel: tuple[int, ...] = ()

    def close(self) -> None:
        """Close all descriptors. Process 1 ends once nobody else holds the other end of its line."""
        self.line.close()
        for descriptor in (self.pidfd, *self.shown, *self.channel):
            if descriptor >= 0:
                os.close(descriptor)


def open_program(path: str) -> int:
    """Open the program before the root folder changes. `EmptyBoxes` needs the descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:  # a free number, and not that of the program's control socket
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_PROGRAM_FD)
    finally:
        os.close(descriptor)


class EmptyBoxes:
    """The empty boxes of a template. Some are kept ready, more of them the more often none was."""

    def __init__(self, program: int, host_id: int) -> None:
        """Start the program.

        Args:
            program: The descriptor of the program.
            host_id: The id of the host user that the boxes' user is mapped to, as seen from the template.

        Raises:
            OSError: The program cannot be started.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_LONGEST_S)
        self._wanted: deque[EmptyBox] = deque()  # in the order in which they were asked for
        self._late = 0  # answers of the program for which nobody waits any longer
        self._spare = ReadySize(_LEAST_SPARE, _MOST_SPARE)
        self._pid = os.posix_spawn(
            f"/proc/self/fd/{program}",
            ["box_init", str(host_id)],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), _CONTROL_FD)],
        )
        theirs.close()

    def take(self) -> EmptyBox:
        """Return an isolated box; wait for it if none is ready.

        Raises:
            BrokenPipeError: The program has ended.
            OSError: The box cannot be created.
        """
        if not self._wanted or not _readable(self._wanted[0].line):
            self._spare.missed(time.monotonic())
        for _ in range(_MOST_SPARE + _MOST_DEAD):
            self._prepare(1)
            box = self._next()
            if not _readable(box.pidfd):
                return box
            box.close()  # it was killed while it waited
        raise OSError("empty boxes are killed as soon as they exist")

    def _next(self) -> EmptyBox:
        box = self._wanted.popleft()
        try:
            self._finish(box)
        except BaseException:
            box.close()
            raise
        return box

    def close(self) -> None:
        """End the program, and close the boxes that nobody took."""
        self._control.close()
        while self._wanted:
            self._wanted.popleft().close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def refill(self) -> None:
        """Have boxes created in the background, until as many are ready as should be. Closes those too many.

        Raises:
            OSError: The program has ended.
        """
        size = self._spare.at(time.monotonic())
        while len(self._wanted) > size and _readable(self._wanted[0].line):
            self._next().close()
        self._prepare(size)

    def _prepare(self, count: int) -> None:
        """Have boxes created until there are at least `count`. Does not wait for them.

        Raises:
            OSError: The program has ended.
        """
        while len(self._wanted) < count:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                socket.send_fds(self._control, [b"new"], [theirs.fileno()])
            ours.settimeout(_LONGEST_S)
            self._wanted.append(EmptyBox(ours))

    def _finish(self, box: EmptyBox) -> None:
        """Wait until the box is isolated.

        Raises:
            OSError: The box cannot be created.
        """
        if box.pidfd < 0:
            try:
                while self._late:
                    for descriptor in self._receive()[1]:
                        os.close(descriptor)
                    self._late -= 1
                number, descriptors = self._receive()
            except TimeoutError:
                self._late += 1  # the answers come in the order of the requests, so this one is still to come
                raise
            if number or not descriptors:
                raise OSError(number, f"cannot create the namespaces of a box: {os.strerror(number)}")
            box.pidfd = descriptors[0]
        try:
            report, received = process_one.receive(box.line)
        except EOFError:
            raise OSError("process 1 of a new box has ended") from None
        box.shown, box.channel = tuple(received[:2]), tuple(received[2:])
        if report.kind != OrderKind.READY:
            raise OSError(report.error, f"a box cannot be isolated: {report.load.decode(errors='replace')}")
        if len(received) != _DESCRIPTORS:
            raise OSError(errno.EMFILE, "the template has no file descriptor left for a box")

    def _receive(self) -> tuple[int, list[int]]:
        """Return the next answer of the program: an error number, and the pidfd of a box if that is 0.

        Raises:
            TimeoutError: There is none yet.
            BrokenPipeError: The program has ended.
        """
        answer, descriptors, _, _ = socket.recv_fds(self._control, _ERROR.size, 1, socket.MSG_CMSG_CLOEXEC)
        if len(answer) != _ERROR.size:
            raise BrokenPipeError("the program that creates boxes has ended")
        return _ERROR.unpack(answer)[0], descriptors


def _readable(line: socket.socket | int) -> bool:
    poller = select.poll()
    poller.register(line, select.POLLIN)
    return bool(poller.poll(0))


def end(box: EmptyBox) -> None:
    """Kill a box."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(box.pidfd, signal.SIGKILL)


def enter(box: EmptyBox) -> None:
    """Join the box's namespaces, except for its pid namespace, in a process that was forked into that.

    Raises:
        OSError: A namespace cannot be joined.
    """
    syscalls.setns(
        box.pidfd,
        syscalls.CLONE_NEWUSER
        | syscalls.CLONE_NEWNS
        | syscalls.CLONE_NEWNET
        | syscalls.CLONE_NEWIPC
        | syscalls.CLONE_NEWUTS,
    )
