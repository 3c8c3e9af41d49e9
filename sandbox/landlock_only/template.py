"""The template of the `landlock` backend: a process that has imported libraries and forks a box for each job.

It is the head of a process family, and kills every box when its supervisor is gone. Standard library only.
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import NoReturn

from sandbox.forkserver import in_box_modules, preload
from sandbox.forkserver.template import BOX_BROKE, TemplateLoop, keep_only
from sandbox.landlock_only import box, confine, filters, places
from sandbox.landlock_only.family import ProcessFamily, fork_that_ends_on_sigterm
from sandbox.landlock_only.watch import descendants
from sandbox.linux import cgroups, landlock, seccomp

_SWEEPS = 100


@dataclass(frozen=True)
class LandlockTemplatePlan:
    """What a template is created from. `source` is Knackbox's folder, which is hidden from all jobs.

    See `box.LandlockBoxPlan` and `LandlockTemplateConfig` for the other fields.
    """

    source: str
    preload: tuple[str, ...]
    in_box: Mapping[str, CodeType]
    packages: tuple[str, ...]
    path: tuple[str, ...]
    readable: tuple[str, ...]
    base: str
    first_uid: int
    uids: int


class LandlockTemplate(TemplateLoop):
    """A template whose boxes are ordinary processes without privileges."""

    kill_signal = signal.SIGTERM  # on this signal, a box kills its process family and exits

    def __init__(self, plan: LandlockTemplatePlan, control: socket.socket, groups: cgroups.Groups | None) -> None:
        super().__init__(control, groups)
        self._plan = plan

    def prepare(self) -> list[str]:
        """Import the libraries; return the modules that could not be imported."""
        sys.path[:] = [path for path in sys.path if path != self._plan.source]
        os.environ.clear()
        os.environ.update(PATH=":".join(self._plan.path), LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1")
        sys.dont_write_bytecode = True
        missing = preload.for_template(self._plan.preload, self._plan.packages)
        in_box_modules.load(self._plan.in_box)
        self._box_plan = box.LandlockBoxPlan(
            base=self._plan.base,
            readable=self._plan.readable,
            landlock_abi=landlock.abi(),
            first_uid=self._plan.first_uid,
            uids=self._plan.uids,
            template=os.getpid(),
            filters=confine.LandlockFilters(seccomp.program(), filters.without_namespaces(), filters.with_own_files()),
        )
        return missing

    def fork_box(self, box_id: int, given: tuple[int, int, int], group: cgroups.Group | None) -> None:
        """Fork the process of a box.

        Raises:
            OSError: The process cannot be forked.
        """
        pid = fork_that_ends_on_sigterm()
        if pid == 0:
            self._become_box(box_id, given, group)
        self.watch(box_id, pid)

    def clean_up(self, box_id: int, status: int) -> None:
        """Kill the orphans of a box that was killed, and remove the box's folder.

        Raises:
            OSError: The folder cannot be removed, or an orphan cannot be killed.
        """
        if status:  # the box was killed, and its processes have become our children
            self._kill_strays()
        places.remove(f"{self._plan.base}/{box_id}")

    def _become_box(self, box_id: int, given: tuple[int, int, int], group: cgroups.Group | None) -> NoReturn:
        """Turn the forked process into a box. Never returns."""
        try:
            own_group = keep_only(given, group)
            box.main(self._box_plan, socket.socket(fileno=3), (4, 5), box_id, own_group)
        finally:
            os._exit(BOX_BROKE)

    def _kill_strays(self) -> None:
        """Kill and reap all descendants that belong to no living box.

        Raises:
            OSError: Some of them could not be killed.
        """
        boxes = self.pids()
        for _ in range(_SWEEPS):
            strays = {int(pid) for pid in descendants(os.getpid(), without=boxes)}
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):  # its parent still has to be reaped
                    os.waitpid(pid, 0)
        raise OSError("the processes of a box that was killed could not be ended one by one")


def run(
    plan: LandlockTemplatePlan, control: socket.socket, groups: cgroups.Groups | None, family: ProcessFamily
) -> None:
    """Fork boxes until the engine closes its socket, then kill the process family, even after an error."""
    try:
        try:
            LandlockTemplate(plan, control, groups).serve()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    finally:  # also if SIGTERM arrived before it was ignored
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        family.kill()
        places.remove_base(plan.base)
