"""A template: one process with a root and libraries ready, which forks boxes on demand. Standard library only.

It is process 1 of a pid namespace that all its boxes nest in, so that killing it kills every box. It reads orders from
the engine on a socket that keeps message boundaries, and never sees a byte a box has written.
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
from sandbox.linux import cgroups, landlock, seccomp, syscalls
from sandbox.namespace import box, confine, rootfs
from sandbox.wire import paths

_NEW = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)


@dataclass(frozen=True)
class TemplatePlan:
    """preload: modules to import once. box_uid: the host user (as this namespace sees it) a box's user is."""

    root: rootfs.RootPlan
    preload: tuple[str, ...]
    box_uid: int
    path: tuple[str, ...]


class Template:
    """The loop of a template process."""

    def __init__(self, plan: TemplatePlan, control: socket.socket, groups: cgroups.Groups | None) -> None:
        self._plan = plan
        self._groups = groups
        self._control = control
        self._boxes: dict[int, tuple[int, int, int]] = {}  # pidfd -> (box id, pid, pidfd)
        self._poller = select.poll()

    def serve(self) -> None:
        """Until the engine closes its end. Raises OSError when the root cannot be made."""
        rootfs.build(self._plan.root)
        sys.path[:] = [p for p in sys.path if os.path.exists(p)]
        os.environ.clear()
        os.environ.update(PATH=":".join(self._plan.path), HOME=paths.TMP, LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1")
        missing = preload.for_template(self._plan.preload, self._plan.root.shown_packages())
        filters = confine.Filters(seccomp.program(rootfs.BOX_ID), seccomp.program_for_a_workspace())
        self._box_plan = box.BoxPlan(filters, landlock.abi())
        sys.dont_write_bytecode = True
        gc.collect()
        gc.freeze()  # a collection in a fork must not touch, and so copy, the template's pages
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

    def _obey(self, order: dict[str, Any]) -> None:
        if order["op"] == "fork":
            try:
                self._fork(order["id"])
            except OSError as problem:
                orders.say(self._control, {"op": "failed", "id": order["id"], "error": str(problem)})
        elif order["op"] == "kill":
            for box_id, _, pidfd in list(self._boxes.values()):
                if box_id == order["id"]:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _fork(self, box_id: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        mapped_read, mapped_write = os.pipe2(os.O_CLOEXEC)
        group = self._groups.make(box_id) if self._groups else None
        opened = [ours.fileno(), theirs.fileno(), out_read, out_write, err_read, err_write, mapped_read, mapped_write]
        opened += group.descriptors if group else ()
        try:
            if os.geteuid() == 0:  # so that a job can open /dev/stdout, which is a pipe, by its name
                for pipe in (out_write, err_write):
                    os.fchown(pipe, self._plan.box_uid, self._plan.box_uid)
            pid = syscalls.clone(_NEW)
            if pid == 0:
                self._be_box((theirs.fileno(), out_write, err_write, mapped_read), group)
            pidfd = os.pidfd_open(pid)
            self._boxes[pidfd] = (box_id, pid, pidfd)
            self._poller.register(pidfd, select.POLLIN)
            _map_ids(pid, self._plan.box_uid)
            os.write(mapped_write, b"m")
            orders.say(self._control, {"op": "box", "id": box_id}, [ours.fileno(), out_read, err_read])
        finally:
            ours.detach()
            theirs.detach()
            for descriptor in opened:
                os.close(descriptor)

    def _be_box(self, given: tuple[int, int, int, int], group: cgroups.Group | None) -> NoReturn:
        """In the new process: keep what is given, forget every other descriptor. Never returns."""
        try:
            wanted = (*given, *(group.descriptors if group else ()))
            kept = [os.dup2(d, 100 + i, inheritable=False) for i, d in enumerate(wanted)]
            for i, descriptor in enumerate(kept):
                os.dup2(descriptor, 3 + i, inheritable=False)
            syscalls.close_from(3 + len(kept))
            own_group = cgroups.Group(tuple(range(7, 3 + len(kept))), group.folders) if group else None
            box.main(self._box_plan, socket.socket(fileno=3), (4, 5, 6), own_group)
        finally:
            os._exit(70)

    def _bury(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        box_id, pid, _ = self._boxes.pop(pidfd)
        os.waitpid(pid, 0)
        os.close(pidfd)
        if self._groups:
            self._groups.remove(box_id)
        orders.say(self._control, {"op": "gone", "id": box_id})


def _map_ids(pid: int, host_id: int) -> None:
    """Make the box's one user the unprivileged `host_id` outside."""
    line = f"{rootfs.BOX_ID} {host_id} 1"
    for name, text in (("setgroups", "deny"), ("uid_map", line), ("gid_map", line)):
        if name == "setgroups" and host_id != 0:
            continue  # a template of root's lets the box drop root's groups
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as out:
            out.write(text)
