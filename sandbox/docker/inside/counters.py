"""Reads the counters of the container's control group for `TreeWatch`. Standard library only.

Docker sets memory and process limits in the container's control group. There, the kernel also counts the requests that
it refused. The counters therefore also show errors that the code has caught. Where the control group is not visible
(gVisor), only the process tree is watched. The files are described in the kernel's
``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/{memory,pids}.rst``.
"""

import contextlib
import os
from typing import Any

from sandbox.linux.watch import TreeWatch, Used

_CGROUP = "/sys/fs/cgroup"
_OOM_KILLS = (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill"))
_REFUSED_FORKS = (("pids.events", "max"), ("pids/pids.events", "max"))
_MEMORY_MAX = ("memory.max", "memory/memory.limit_in_bytes")
_PIDS_MAX = ("pids.max", "pids/pids.max")


def memory_limit() -> int:
    """Return the container's memory limit in bytes; 0 if no limit is visible."""
    return _first_number(_MEMORY_MAX)


def process_limit() -> int:
    """Return the limit on the number of processes and threads; 0 if no limit is visible."""
    return _first_number(_PIDS_MAX)


def out_of_memory_kills() -> int:
    return _counted(_OOM_KILLS)


def refused_forks() -> int:
    return _counted(_REFUSED_FORKS)


class ContainerWatch(TreeWatch):
    """Watches a process tree that can write to several tmpfs mounts.

    The disk limit is the size of each mount; this class also applies it to the sum of the bytes used in all of them.
    """

    def __init__(self, disks: tuple[str, ...]) -> None:
        super().__init__(disks[0])
        self._disks = disks
        self._bound: dict[str, Any] = {}
        self._seen: set[str] = set()
        self._counted_by_kernel = process_limit() > 0

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        super().begin(limits, worker, workspace)
        self._bound = limits

    def exceeded(self) -> str:
        """Check the process tree once. Return the name of a limit that it exceeds, or ""."""
        if self._used_disk() > self._bound["disk_bytes"]:
            self._seen.add("disk")
            return "disk"
        if not self._counted_by_kernel and _tasks() > max(self._bound["processes"], self._bound["threads"]):
            self._seen.add("processes")
            return "processes"
        return super().exceeded()

    def hits(self, used: Used) -> list[str]:
        """Return the limits that were reached at some point, even if the code caught the error."""
        if out_of_memory_kills():
            self._seen.add("memory")
        if refused_forks():
            self._seen.add("processes")
        return sorted({*super().hits(used), *self._seen})

    def _look_at_disk(self) -> None:
        self._used_disk()

    def _used_disk(self) -> int:
        """Return the bytes used in all mounts, and record if one of them is full. gVisor reports no inode counts."""
        used = 0
        for folder in self._disks:
            stat = os.statvfs(folder)
            used += (stat.f_blocks - stat.f_bfree) * stat.f_frsize
            if stat.f_bfree == 0 or (stat.f_files and stat.f_ffree == 0):
                self._seen.add("disk")
        return used


def _tasks() -> int:
    """Return the number of processes and threads, without process 1."""
    count = -1
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/status", "rb") as source:
                count += int(source.read().partition(b"Threads:")[2].split(None, 1)[0])
    return count


def _first_number(paths: tuple[str, ...]) -> int:
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(f"{_CGROUP}/{path}", "rb") as source:
            return int(source.read())
    return 0


def _counted(places: tuple[tuple[str, str], ...]) -> int:
    for path, key in places:
        with contextlib.suppress(OSError), open(f"{_CGROUP}/{path}", encoding="ascii") as source:
            for line in source:
                name, _, number = line.partition(" ")
                if name == key:
                    return int(number)
    return 0
