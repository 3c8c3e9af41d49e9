"""`TreeChecks`: checks the limits of all processes of a box together, from its /proc. Standard library only.

rlimits apply to single processes. If the box also has a control group, the kernel enforces the limits of the whole tree
exactly, and these checks are the second line of defence.
"""

import os
from typing import Any

from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace

# A tree that used less CPU time than this between two checks is nearly idle. A check itself takes a tenth of this time.
_RESTING_S = 0.005


class TreeChecks:
    """Checks the limits of a box at intervals, and notes which of them were reached.

    A subclass sets the limits and the resource use before the job, and implements `_cpu_of_reaped`.
    """

    def __init__(self, disk: str, group: Group | None, proc: str, inherited: int) -> None:
        """Create the object.

        Args:
            disk: Where the box's tmpfs is mounted.
            group: The box's control group; None if there is none.
            proc: Where the box's processes are listed.
            inherited: The bytes that each process shares with the template. They are not charged to the job.
        """
        self._group = group
        self._proc = proc
        self._limits: dict[str, Any] = {}
        self._disk = disk
        self._peak = 0
        self._hits: set[str] = set()
        self._space: SharedSpace | None = None
        self._cpu_before = 0.0
        self._cpu_last = 0.0
        self.resting = False
        """Whether the tree was nearly idle between the last two checks."""
        self._cpu_seen: dict[tuple[str, bytes], float] = {}
        self._inherited = inherited

    def exceeded(self) -> str:
        """Check the limits once. Return the name of a limit that the tree exceeds, or ""."""
        pids = [name for name in os.listdir(self._proc) if name.isdigit() and name != "1"]
        self._look_at_disk()
        over = self._count(len(pids)) or self._weigh(pids)
        if not over and self._filled(pids):
            over = "disk"
        cpu = self._cpu_now(pids)
        self.resting, self._cpu_last = cpu - self._cpu_last < _RESTING_S, cpu
        if not over and cpu > self._limits["cpu_s"]:
            over = "cpu"
        if over:
            self._hits.add(over)
        return over

    def _count(self, processes: int) -> str:
        """Return "processes" if there are more than allowed, else "". The kernel itself limits the threads."""
        return "processes" if processes > self._limits["processes"] else ""

    def _weigh(self, pids: list[str]) -> str:
        """Return "memory" if these processes use more memory than allowed, else ""."""
        limit: int = self._limits["memory_bytes"]
        each = [readings.memory(pid, self._proc) for pid in pids]
        if sum(memory.threads for memory in each) >= max(self._limits["processes"], self._limits["threads"]):
            self._hits.add("processes")
        if sum(memory.own + memory.shared for memory in each) > limit:
            each = [readings.proportional(pid, self._proc) for pid in pids]  # exact, but too slow to read every time
            own = sum(memory.own for memory in each)
        else:
            own = max(0, sum(memory.own for memory in each) - self._inherited * len(pids))
        shared = sum(memory.shared for memory in each)
        if self._group is None and sum(memory.mapped for memory in each) > limit:
            # Shared pages that are in no process's page tables are counted nowhere, so count everything that is mapped.
            shared = max(shared, readings.shared_mappings(pids, self._proc))
        self._peak = max(self._peak, own + shared)
        return "memory" if own + shared > limit else ""

    def _filled(self, pids: list[str]) -> bool:
        """Return whether the job exceeds its disk limit in the workspace, where other processes may write as well."""
        return self._space is not None and self._space.used_up(pids)

    def _cpu_now(self, pids: list[str]) -> float:
        if self._group:
            return self._group.cpu_s() - self._cpu_before
        alive = 0.0
        for pid in pids:
            used = readings.cpu(pid, self._proc)
            if used:
                alive += used.own_s + used.children_s
                self._cpu_seen[pid, used.started] = used.own_s
        return max(alive + self._cpu_of_reaped(), self._cpu_of_seen())

    def _cpu_of_reaped(self) -> float:
        """Return the CPU time, in seconds, of the box's processes that were reaped."""
        raise NotImplementedError

    def _cpu_of_seen(self) -> float:
        """Return the CPU time of all processes seen so far, including those that have ended.

        The kernel's counters omit the ended children of a process that ignores SIGCHLD.
        """
        return sum(self._cpu_seen.values())

    def _look_at_disk(self) -> None:
        free = os.statvfs(self._disk)
        if free.f_bfree == 0 or free.f_ffree == 0:
            self._hits.add("disk")
