"""`TreeWatch`: measures what all processes of a box use together, from the box's own /proc. Standard library only.

rlimits apply to single processes. Process 1 enforces the limits of the whole tree and checks them every 10 to 50 ms, or
every 400 ms for an idle server. If the box also has a control group, the kernel enforces them exactly, and these checks
are the second line of defence.
"""

import os
import resource
from dataclasses import dataclass
from typing import Any

from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace

# A tree that used less CPU time than this between two checks is nearly idle. A check itself takes a tenth of this time.
_RESTING_S = 0.005


@dataclass(frozen=True)
class Used:
    """The resources that a job has used.

    Attributes:
        cpu_s: CPU time of all processes, in seconds.
        max_rss_bytes: Peak memory of the largest process.
    """

    cpu_s: float
    max_rss_bytes: int


class TreeWatch:
    """Measures the resource use of a box at intervals.

    `disk` is where the box's tmpfs is mounted; `group` is the box's control group, if there is one; `proc` is where the
    box's processes are listed.
    """

    def __init__(self, disk: str, group: Group | None = None, proc: str = readings.PROC) -> None:
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
        # A fork starts with the pages of its template, which are shared and not charged to the job.
        self._inherited = readings.memory("self").own
        self._max_rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        """Start measuring. Call it when the worker gets its job.

        Args:
            limits: `sandbox.contract.Limits` as a dict.
            worker: The worker's pid.
            workspace: Where the workspace is mounted, if the job may write to the host's folder; else "".
        """
        self._limits = limits
        self._space = SharedSpace(workspace, limits["disk_bytes"]) if workspace else None
        self._cpu_before = self._group.cpu_s() if self._group else readings.cpu_clock_s(worker)

    def used_alone(self, worker: int) -> Used | None:
        """Return the resources that a running worker has used; None if the box ever had another process or thread."""
        if (
            readings.read("loadavg").rsplit(None, 1)[-1] != str(worker).encode()
        ):  # the last pid given out in this namespace
            return None
        cpu = self._group.cpu_s() if self._group else readings.cpu_clock_s(worker)
        return Used(max(0.0, cpu - self._cpu_before), readings.status_bytes(f"{worker}/status", b"VmHWM:"))

    def used_by_all(self) -> Used:
        """Return the resources that all processes of the box have used. Call it after they are reaped."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self._group:
            cpu = self._group.cpu_s() - self._cpu_before
        else:
            cpu = max(used.ru_utime + used.ru_stime - self._cpu_before, self._cpu_of_seen())
        return Used(max(0.0, cpu), used.ru_maxrss * 1024)

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

    def hits(self, used: Used) -> list[str]:
        """Return the limits that were reached at some point, even if the job's code caught the error."""
        self._look_at_disk()
        if self._group and self._group.memory_refused():
            self._hits.add("memory")
        if used.cpu_s >= self._limits["cpu_s"]:
            self._hits.add("cpu")
        return sorted(self._hits)

    def peak(self, used: Used) -> int:
        """Return the peak memory in bytes.

        This is the largest sample or the peak of the largest process, whichever is larger, because a short job may end
        before the first sample.
        """
        return max(self._peak, used.max_rss_bytes - self._max_rss_before, 0)

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
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return reaped.ru_utime + reaped.ru_stime

    def _cpu_of_seen(self) -> float:
        """Return the CPU time of all processes seen so far, including those that have ended.

        The kernel's counters omit the ended children of a process that ignores SIGCHLD.
        """
        return sum(self._cpu_seen.values())

    def _look_at_disk(self) -> None:
        free = os.statvfs(self._disk)
        if free.f_bfree == 0 or free.f_ffree == 0:
            self._hits.add("disk")
