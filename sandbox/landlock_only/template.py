"""A template of this level: a process with libraries imported, which forks a box per job. Standard library only.

It reads orders from the engine on a socket that keeps message boundaries, and never sees a byte a job has written. As
the head of a family it ends every box with itself, when its supervisor is gone.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from sandbox.forkserver import orders, preload
from sandbox.landlock_only import box, confine, filters, places
from sandbox.landlock_only.family import Family, fork_told_to_end
from sandbox.landlock_only.watch import descendants
from sandbox.linux import cgroups, landlock, seccomp, syscalls

_SWEEPS = 100
_BOX_BROKE = 70


@dataclass(frozen=True)
class TemplatePlan:
    """source: the folder Knackbox was imported from, which no job sees. The rest: see `box.BoxPlan`."""

    source: str
    preload: tuple[str, ...]
    packages: tuple[str, ...]
    path: tuple[str, ...]
    readable: tuple[str, ...]
    base: str
    first_uid: int
    uids: int


class Template:
    """The loop of a template process."""

    def __init__(self, plan: TemplatePlan, control: socket.socket, groups: cgroups.Groups | None) -> None:
        self._plan = plan
        self._groups = groups
        self._control = control
        self._boxes: dict[int, tuple[int, int]] = {}  # pidfd -> (box id, pid)
        self._poller = select.poll()

    def serve(self) -> None:
        """Until the engine closes its end."""
        missing = self._prepare()
        self._box_plan = box.BoxPlan(
            base=self._plan.base,
            readable=self._plan.readable,
            landlock_abi=landlock.abi(),
            first_uid=self._plan.first_uid,
            uids=self._plan.uids,
            template=os.getpid(),
            filters=confine.Filters(seccomp.program(), filters.without_namespaces(), filters.with_own_files()),
        )
        orders.say(self._control, {"op": "ready", "missing": missing})
        self._poller.register(self._control, select.POLLIN)
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._control.fileno():
                    order = orders.hear(self._control)
                    if order is None:
                        return
                    self._obey(order)
                else:
                    self._bury(descriptor)

    def _prepare(self) -> list[str]:
        """Import; the names of modules that are not there."""
        sys.path[:] = [path for path in sys.path if path != self._plan.source]
        os.environ.clear()
        os.environ.update(PATH=":".join(self._plan.path), LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1")
        sys.dont_write_bytecode = True
        missing = preload.for_template(self._plan.preload, self._plan.packages)
        gc.collect()
        gc.freeze()  # a collection in a fork must not touch, and so copy, the template's pages
        return missing

    def _obey(self, order: dict[str, Any]) -> None:
        if order["op"] == "fork":
            try:
                self._fork(order["id"])
            except OSError as problem:
                orders.say(self._control, {"op": "failed", "id": order["id"], "error": str(problem)})
        elif order["op"] == "kill":
            for pidfd, (box_id, _) in list(self._boxes.items()):
                if box_id == order["id"]:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(pidfd, signal.SIGTERM)  # it ends its family, then itself

    def _fork(self, box_id: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        group = self._groups.make(box_id) if self._groups else None
        opened = [ours.fileno(), theirs.fileno(), out_read, out_write, err_read, err_write]
        opened += group.descriptors if group else ()
        try:
            pid = fork_told_to_end()
            if pid == 0:
                self._be_box(box_id, (theirs.fileno(), out_write, err_write), group)
            pidfd = os.pidfd_open(pid)
            self._boxes[pidfd] = (box_id, pid)
            self._poller.register(pidfd, select.POLLIN)
            orders.say(self._control, {"op": "box", "id": box_id}, [ours.fileno(), out_read, err_read])
        finally:
            ours.detach()
            theirs.detach()
            for descriptor in opened:
                os.close(descriptor)

    def _be_box(self, box_id: int, given: tuple[int, int, int], group: cgroups.Group | None) -> NoReturn:
        """In the new process: keep what is given, forget every other descriptor. Never returns."""
        try:
            wanted = (*given, *(group.descriptors if group else ()))
            kept = [os.dup2(d, 100 + i, inheritable=False) for i, d in enumerate(wanted)]
            for i, descriptor in enumerate(kept):
                os.dup2(descriptor, 3 + i, inheritable=False)
            syscalls.close_from(3 + len(kept))
            own_group = cgroups.Group(tuple(range(6, 3 + len(kept))), group.folders) if group else None
            box.main(self._box_plan, socket.socket(fileno=3), (4, 5), box_id, own_group)
        finally:
            os._exit(_BOX_BROKE)

    def _bury(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        box_id, pid = self._boxes.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        if status:  # somebody killed it, and what it watched over has come down to us
            self._kill_strays()
        places.remove(f"{self._plan.base}/{box_id}")
        if self._groups:
            self._groups.remove(box_id)
        orders.say(self._control, {"op": "gone", "id": box_id})

    def _kill_strays(self) -> None:
        """Kill and reap our processes below no living box. Raises OSError when they outrun us: then all must end."""
        boxes = {pid for _, pid in self._boxes.values()}
        for _ in range(_SWEEPS):
            strays = {int(pid) for pid in descendants(os.getpid(), without=boxes)}
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):  # another's child still; ours once that one is reaped
                    os.waitpid(pid, 0)
        raise OSError("the processes of a box that was killed could not be ended one by one")


def run(plan: TemplatePlan, control: socket.socket, groups: cgroups.Groups | None, family: Family) -> None:
    """Serve, and end the family whatever ended it."""
    try:
        try:
            Template(plan, control, groups).serve()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    finally:  # also when the signal came just then
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        family.kill()
        places.remove(plan.base)
