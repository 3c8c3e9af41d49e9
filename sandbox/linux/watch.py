"""`TreeWatch`: measures what all processes of a box use together, from the box's own /proc. Standard library only.

Process 1 checks the limits of the whole tree every 10 to 50 ms, or every 400 ms for an idle server.
"""

import resource
from dataclasses import dataclass
from typing import Any

from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace
from sandbox.linux.tree_checks import TreeChecks


@dataclass(frozen=True)
class Used:
    """The resources that a job has used.

    Attributes:
        cpu_s: CPU time of all processes, in seconds.
        max_rss_bytes: Peak memory of the largest process.
    """

    cpu_s: float
    max_rss_bytes: int


class TreeWatch(TreeChecks):
    """Measures the resource use of a box whose processes are descendants of this one.

    `disk` is where the box's tmpfs is mounted; `group` is the box's control group, if there is one.
    """

    def __init__(self, disk: str, group: Group | None = None) -> None:
        # A fork starts with the pages of its template, which are shared and not charged to the job.
        super().__init__(disk, group, readings.PROC, readings.memory("self").own)
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
        last_pid = readings.read("loadavg").rsplit(None, 1)[-1]  # the last one given out in this namespace
        if last_pid != str(worker).encode():
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

    def _cpu_of_reaped(self) -> float:
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return reaped.ru_utime + reaped.ru_stime
