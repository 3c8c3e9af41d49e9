"""The template of the namespace backend: a process that has a root folder and loaded libraries, and forks boxes.

The template is process 1 of a pid namespace that contains all its boxes, so killing the template kills every box.
Standard library only.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import NoReturn

from sandbox.forkserver import in_box_modules, orders, preload, quick_fork
from sandbox.forkserver.template import BOX_BROKE, TemplateLoop, keep_only
from sandbox.linux import cgroups, landlock, seccomp, syscalls
from sandbox.namespace import box, confine, direct_worker, empty_boxes, rootfs
from sandbox.namespace.empty_boxes import EmptyBox, EmptyBoxes
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
class NamespaceTemplatePlan:
    """What a template is created from.

    Attributes:
        root: The contents of the root folder of its boxes.
        preload: Modules to import once.
        in_box: Modules of Knackbox to load after these (`sandbox.forkserver.in_box_modules`).
        box_uid: The id of the host user that a box's user is mapped to, as seen from the template.
        path: The folders in the PATH of its boxes.
        init: The path of the native process 1; "" to do without.
    """

    root: rootfs.RootPlan
    preload: tuple[str, ...]
    in_box: Mapping[str, CodeType]
    box_uid: int
    path: tuple[str, ...]
    init: str


class NamespaceTemplate(TemplateLoop):
    """A template whose boxes have namespaces of their own."""

    def __init__(self, plan: NamespaceTemplatePlan, control: socket.socket, groups: cgroups.Groups | None) -> None:
        super().__init__(control, groups)
        self._plan = plan
        self._direct: dict[int, EmptyBox] = {}  # box id -> the box, with its worker

    def prepare(self) -> list[str]:
        """Build the root folder and import the libraries.

        Returns:
            The names of the modules that could not be imported.

        Raises:
            OSError: The root cannot be created.
        """
        program = empty_boxes.open_program(self._plan.init) if self._plan.init else -1
        rootfs.build(self._plan.root)
        sys.path[:] = [p for p in sys.path if os.path.exists(p)]
        os.environ.clear()
        os.environ.update(PATH=":".join(self._plan.path), HOME=paths.TMP, LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1")
        with quick_fork.noted_hooks() as hooks:
            missing = preload.for_template(self._plan.preload, self._plan.root.shown_packages())
            in_box_modules.load(self._plan.in_box)
        fork = quick_fork.choose(hooks)
        filters = confine.NamespaceFilters(seccomp.program(rootfs.BOX_ID), seccomp.program_for_a_workspace())
        self._box_plan = box.NamespaceBoxPlan(filters, landlock.abi(), fork)
        if program >= 0:
            own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            self._direct_plan = direct_worker.DirectPlan(filters, landlock.abi(), own_pids, fork)
        self._program = program
        sys.dont_write_bytecode = True
        return missing

    def begin(self) -> None:
        """Create the first empty boxes.

        Raises:
            OSError: The program that creates them cannot be started.
        """
        if self._program >= 0:
            self._empty = EmptyBoxes(self._program, self._plan.box_uid)
            self._empty.refill()

    def fork_box(self, box_id: int, given: tuple[int, int, int], group: cgroups.Group | None) -> None:
        """Clone a process into new namespaces and map its user.

        Raises:
            OSError: The process cannot be created.
        """
        mapped_read, mapped_write = os.pipe2(os.O_CLOEXEC)
        try:
            self._give_pipes(given[1:])
            pid = syscalls.clone(_NEW)
            if pid == 0:
                self._become_box((*given, mapped_read), group)
            self.watch(box_id, pid)
            _map_ids(pid, self._plan.box_uid)
            os.write(mapped_write, b"m")
        finally:
            os.close(mapped_read)
            os.close(mapped_write)

    @contextlib.contextmanager
    def fork_direct(self, box_id: int, given: tuple[int, int], group: cgroups.Group | None) -> Iterator[Sequence[int]]:
        """Take an empty box and fork its worker. See `TemplateLoop.fork_direct`.

        Raises:
            OSError: The box cannot be created.
        """
        self._give_pipes(given)
        box = self._take_empty()
        pid = -1
        try:
            pid = direct_worker.fork_into(box, self._direct_plan, given, group)
            worker = os.pidfd_open(pid)
        except BaseException:
            empty_boxes.end(box)
            if pid >= 0:
                os.waitpid(pid, 0)
            box.close()
            raise
        self._direct[box_id] = box
        self.when_ended(worker, self._worker_ended, box_id, pid)
        self.when_ended(box.pidfd, self._box_ended, box_id)
        engines, workers = box.channel
        try:
            yield (engines, box.line.fileno(), *box.shown)
        finally:
            box.line.close()
            for descriptor in (engines, workers, *box.shown):
                os.close(descriptor)
            with contextlib.suppress(OSError):  # the next `take` meets the same problem, and reports it
                self._empty.refill()

    def _take_empty(self) -> EmptyBox:
        """Return an empty box. If the program that creates them was killed, start it again.

        Raises:
            OSError: The box cannot be created.
        """
        try:
            return self._empty.take()
        except (BrokenPipeError, ConnectionResetError):
            fresh = EmptyBoxes(self._program, self._plan.box_uid)
            self._empty.close()
            self._empty = fresh
            return self._empty.take()

    def kill(self, box_id: int) -> None:
        """Kill a box, unless it has ended."""
        if box_id in self._direct:
            empty_boxes.end(self._direct[box_id])
            with contextlib.suppress(OSError):  # the next `take` meets the same problem, and reports it
                self._empty.refill()  # a box that was not needed is killed, so fewer may be needed here as well
        else:
            super().kill(box_id)

    def _worker_ended(self, box_id: int, pid: int) -> None:
        _, status, used = os.wait4(pid, 0)
        cpu_s, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        ended = {"op": "ended", "id": box_id, "status": status, "cpu_s": cpu_s, "peak_bytes": peak}
        orders.send(self._control, ended)

    def _box_ended(self, box_id: int) -> None:
        box = self._direct.pop(box_id)
        with contextlib.suppress(ChildProcessError):  # only an orphan of a killed program is a child of the template
            os.waitid(os.P_PIDFD, box.pidfd, os.WEXITED | os.WNOHANG)
        self.report_gone(box_id)

    def _give_pipes(self, pipes: tuple[int, int]) -> None:
        """Let the box's user own its pipes, so that a job can open /dev/stdout by name."""
        if os.geteuid() == 0:
            for pipe in pipes:
                os.fchown(pipe, self._plan.box_uid, self._plan.box_uid)

    def _become_box(self, given: tuple[int, int, int, int], group: cgroups.Group | None) -> NoReturn:
        """Become a box, in the new process. Never returns."""
        try:
            own_group = keep_only(given, group)
            box.main(self._box_plan, socket.socket(fileno=3), (4, 5, 6), own_group)
        finally:
            os._exit(BOX_BROKE)


def _map_ids(pid: int, host_id: int) -> None:
    """Map the box's only user to the unprivileged `host_id` outside."""
    line = f"{rootfs.BOX_ID} {host_id} 1"
    for name, text in (("setgroups", "deny"), ("uid_map", line), ("gid_map", line)):
        if name == "setgroups" and host_id != 0:
            continue  # a template started by root lets the box drop root's groups
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as out:
            out.write(text)
