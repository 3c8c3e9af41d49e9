"""What all processes of a box use together, read from its own /proc. Standard library only.

rlimits bind single processes; the tree is bound here, by process 1, which looks every 10 to 50 ms. Where a cgroup
holds the box as well, the kernel is exact and this is the second line.
"""

import os
import resource
from dataclasses import dataclass
from typing import Any

from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace

_RESTING_S = 0.005  # of CPU time from one look to the next; a look itself takes a tenth of it


@dataclass(frozen=True)
class Used:
    """cpu_s: of all processes. max_rss_bytes: of the largest one."""

    cpu_s: float
    max_rss_bytes: int


class TreeWatch:
    """Samples a box. disk: where the box's tmpfs is seen. group: its control group, where there is one."""

    def __init__(self, disk: str, group: Group | None = None) -> None:
        self._group = group
        self._limits: dict[str, Any] = {}
        self._disk = disk
        self._peak = 0
        self._hits: set[str] = set()
        self._space: SharedSpace | None = None
        self._cpu_before = 0.0
        self._cpu_last = 0.0
        self.resting = False
        """Whether the tree did next to nothing between the last two looks at it."""
        self._cpu_seen: dict[tuple[str, bytes], float] = {}
        # A fork of a template starts with the template's pages: shared, and not the job's doing.
        self._inherited = readings.memory("self").own
        self._max_rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        """Called as the worker starts on its job.

        limits: `sandbox.contract.Limits` as a dict. workspace: where the host's folder is seen, if it is written to.
        """
        self._limits = limits
        self._space = SharedSpace(workspace, limits["disk_bytes"]) if workspace else None
        self._cpu_before = self._group.cpu_s() if self._group else readings.cpu_clock_s(worker)

    def used_alone(self, worker: int) -> Used | None:
        """What a live worker has used; None when the box ever had another process or thread."""
        if (
            readings.read("loadavg").rsplit(None, 1)[-1] != str(worker).encode()
        ):  # the last pid this namespace gave away
            return None
        cpu = self._group.cpu_s() if self._group else readings.cpu_clock_s(worker)
        return Used(max(0.0, cpu - self._cpu_before), readings.status_bytes(f"{worker}/status", b"VmHWM:"))

    def used_by_all(self) -> Used:
        """What every process of the box has used, once all are reaped."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self._group:
            cpu = self._group.cpu_s() - self._cpu_before
        else:
            cpu = max(used.ru_utime + used.ru_stime - self._cpu_before, self._cpu_of_seen())
        return Used(max(0.0, cpu), used.ru_maxrss * 1024)

    def exceeded(self) -> str:
        """Look once; the name of the limit the tree is over, or ""."""
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
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

    def hits(self, used: Used) -> list[str]:
        """Limits that were reached at some moment, whatever the code made of it."""
        self._look_at_disk()
        if self._group and self._group.memory_refused():
            self._hits.add("memory")
        if used.cpu_s >= self._limits["cpu_s"]:
            self._hits.add("cpu")
        return sorted(self._hits)

    def peak(self, used: Used) -> int:
        """Peak memory in bytes: the largest sample, or the largest process where it was over too soon for one."""
        return max(self._peak, used.max_rss_bytes - self._max_rss_before, 0)

    def _count(self, processes: int) -> str:
        """ "processes" when there are more than there may be. The kernel counts threads alone, and refuses those."""
        return "processes" if processes > self._limits["processes"] else ""

    def _weigh(self, pids: list[str]) -> str:
        """ "memory" when these processes hold more than they may."""
        limit: int = self._limits["memory_bytes"]
        each = [readings.memory(pid) for pid in pids]
        if sum(memory.threads for memory in each) >= max(self._limits["processes"], self._limits["threads"]):
            self._hits.add("processes")
        if sum(memory.own + memory.shared for memory in each) > limit:
            each = [readings.proportional(pid) for pid in pids]  # exact, and too slow to read every time
            own = sum(memory.own for memory in each)
        else:
            own = max(0, sum(memory.own for memory in each) - self._inherited * len(pids))
        shared = sum(memory.shared for memory in each)
        if self._group is None and sum(memory.mapped for memory in each) > limit:
            # Its pages count nowhere while no process has them in its tables, so all that is mapped counts.
            shared = max(shared, readings.shared_mappings(pids))
        self._peak = max(self._peak, own + shared)
        return "memory" if own + shared > limit else ""

    def _filled(self, pids: list[str]) -> bool:
        """Whether the job has used up its disk in the host's file system, which others write to as well."""
        return self._space is not None and self._space.used_up(pids)

    def _cpu_now(self, pids: list[str]) -> float:
        if self._group:
            return self._group.cpu_s() - self._cpu_before
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = 0.0
        for pid in pids:
            used = readings.cpu(pid)
            if used:
                alive += used.own_s + used.children_s
                self._cpu_seen[pid, used.started] = used.own_s
        return max(alive + reaped.ru_utime + reaped.ru_stime, self._cpu_of_seen())

    def _cpu_of_seen(self) -> float:
        """Of each process as last seen: one that ignores the end of its children hides what they took."""
        return sum(self._cpu_seen.values())

    def _look_at_disk(self) -> None:
        free = os.statvfs(self._disk)
        if free.f_bfree == 0 or free.f_ffree == 0:
            self._hits.add("disk")
