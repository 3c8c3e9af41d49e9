"""`TemplateLoop`: the loop of a template process, which forks boxes on demand. Standard library only.

A template reads orders from the engine on a socket that keeps message boundaries, and never reads a byte a box has
written. Each backend that forks its boxes has a subclass of `TemplateLoop`.
"""

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sandbox import worker
from sandbox.forkserver import immortal, orders
from sandbox.linux import cgroups, syscalls

BOX_BROKE = 70  # exit code of a forked process that could not become a box
_FIRST_KEPT = 3  # the number of the first descriptor a box keeps
_OUT_OF_THE_WAY = 100  # above all descriptor numbers assigned below


class TemplateLoop:
    """Forks a box for each order, and reports when a box is ready, is gone, or could not be made."""

    kill_signal: int = signal.SIGKILL
    """The signal that ends a box."""

    def __init__(self, control: socket.socket, groups: cgroups.Groups | None) -> None:
        self._control = control
        self._groups = groups
        self._boxes: dict[int, tuple[int, int]] = {}  # pidfd -> (box id, pid)
        self._ended: dict[int, tuple[Callable[..., None], tuple[int, ...]]] = {}  # pidfd of another process -> a call
        self._poller = select.poll()

    def serve(self) -> None:
        """Carry out orders until the engine closes its end of the socket.

        Raises:
            OSError: The template cannot be prepared.
        """
        missing = self.prepare()
        worker.leave_no_trace()  # done here, because in each fork it would copy pages while the job waits
        gc.collect()
        immortal.make_all_immortal()
        gc.freeze()  # a collection in a fork must not touch, and so copy, the template's pages
        self.begin()
        orders.send(self._control, {"op": "ready", "missing": missing})
        self._poller.register(self._control, select.POLLIN)
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._control.fileno():
                    order = orders.receive(self._control)
                    if order is None:
                        return
                    self._carry_out(order)
                elif descriptor in self._ended:
                    self._call_ended(descriptor)
                else:
                    self._reap_box(descriptor)

    def prepare(self) -> list[str]:
        """Do once the work that all boxes share; return the modules that could not be preloaded."""
        raise NotImplementedError

    def begin(self) -> None:
        """Do what must come after `prepare`, when the objects that all forks share are complete."""

    def fork_box(self, box_id: int, given: tuple[int, int, int], group: cgroups.Group | None) -> None:
        """Fork the process of a box and `watch` it.

        Args:
            box_id: The number that the engine uses for the box.
            given: The descriptors of the box's channel, stdout and stderr.
            group: The control group of the box; None without control groups.

        Raises:
            OSError: The process cannot be forked.
        """
        raise NotImplementedError

    def fork_direct(
        self, box_id: int, given: tuple[int, int], group: cgroups.Group | None
    ) -> AbstractContextManager[Sequence[int]]:
        """Fork the worker of a direct box, in which the job does not pass through process 1.

        Args:
            box_id: The number that the engine uses for the box.
            given: The descriptors of the worker's stdout and stderr.
            group: The control group of the box; None without control groups.

        Returns:
            Descriptors for the engine, open until the context ends: the worker's channel, the line to process 1, the
            box's /proc, and its tmpfs.

        Raises:
            OSError: The worker cannot be forked.
        """
        raise NotImplementedError

    def clean_up(self, box_id: int, status: int) -> None:
        """Remove what a box has left behind. `status` is the exit status of the box, as returned by waitpid."""

    def watch(self, box_id: int, pid: int) -> None:
        """Report the box as gone once process `pid` ends, a child of the template and the first process of the box."""
        pidfd = os.pidfd_open(pid)
        self._boxes[pidfd] = (box_id, pid)
        self._poller.register(pidfd, select.POLLIN)

    def when_ended(self, pidfd: int, act: Callable[..., None], *arguments: int) -> None:
        """Call `act` once this process has ended. The descriptor is closed afterwards."""
        self._ended[pidfd] = (act, arguments)
        self._poller.register(pidfd, select.POLLIN)

    def pids(self) -> set[int]:
        """Return the pid of the first process of each box that has not ended."""
        return {pid for _, pid in self._boxes.values()}

    def _carry_out(self, order: dict[str, Any]) -> None:
        if order["op"] == "fork":
            try:
                self._fork(order["id"], direct=order["direct"])
            except OSError as problem:
                orders.send(self._control, {"op": "failed", "id": order["id"], "error": str(problem)})
        elif order["op"] == "kill":
            self.kill(order["id"])

    def kill(self, box_id: int) -> None:
        """Kill a box, unless it has ended."""
        for pidfd, (each, _) in list(self._boxes.items()):
            if each == box_id:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, self.kill_signal)

    def _fork(self, box_id: int, *, direct: bool) -> None:
        with contextlib.ExitStack() as opened:
            out_read, out_write = _pipe(opened)
            err_read, err_write = _pipe(opened)
            group = self._groups.make(box_id) if self._groups else None
            for descriptor in group.descriptors if group else ():
                opened.callback(os.close, descriptor)
            made = False
            try:
                forked = (self.fork_direct if direct else self._fork_attended)(box_id, (out_write, err_write), group)
                with forked as (channel, *others):
                    made = True
                    orders.send(self._control, {"op": "box", "id": box_id}, [channel, out_read, err_read, *others])
            finally:
                if self._groups and not made:
                    self._groups.remove(box_id)

    @contextlib.contextmanager
    def _fork_attended(
        self, box_id: int, given: tuple[int, int], group: cgroups.Group | None
    ) -> Iterator[Sequence[int]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours:
            with theirs:
                self.fork_box(box_id, (theirs.fileno(), *given), group)
            yield (ours.fileno(),)

    def _call_ended(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        act, arguments = self._ended.pop(pidfd)
        act(*arguments)
        os.close(pidfd)

    def _reap_box(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        box_id, pid = self._boxes.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        self.clean_up(box_id, status)
        self.report_gone(box_id)

    def report_gone(self, box_id: int) -> None:
        """Remove the control group of a box, whose processes have all ended, and tell the engine that it is gone."""
        if self._groups:
            self._groups.remove(box_id)
        orders.send(self._control, {"op": "gone", "id": box_id})


def _pipe(opened: contextlib.ExitStack) -> tuple[int, int]:
    """Open a pipe whose two ends are closed together with `opened`."""
    read, write = os.pipe2(os.O_CLOEXEC)
    opened.callback(os.close, read)
    opened.callback(os.close, write)
    return read, write


def keep_only(given: tuple[int, ...], group: cgroups.Group | None) -> cgroups.Group | None:
    """Move these descriptors to the numbers from 3 on, and close all others above 2. A new box calls this.

    Returns:
        The control group with its moved descriptors, which come after the given ones.
    """
    wanted = (*given, *(group.descriptors if group else ()))
    kept = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for each in wanted]
    for index, descriptor in enumerate(kept):
        os.dup2(descriptor, _FIRST_KEPT + index, inheritable=False)
    end = _FIRST_KEPT + len(kept)
    syscalls.close_from(end)
    return cgroups.Group(tuple(range(_FIRST_KEPT + len(given), end)), group.folders) if group else None
