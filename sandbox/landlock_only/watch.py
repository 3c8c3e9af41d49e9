"""`FamilyWatch`: measures what all processes of a job use together, from the host's /proc. Standard library only."""

import contextlib
import os
import stat
import time
from collections.abc import Collection
from typing import Any

from sandbox.landlock_only import places
from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace
from sandbox.linux.watch import TreeWatch, Used

_BLOCK = 512
_SLACK = 1 << 20  # margin for the file system's own blocks: a file exactly as large as the limit is allowed
_IDLE_SHARE = 9  # a check of 1 ms is followed by a pause of 9 ms, because a machine may have thousands of processes
_LONGEST_IDLE_S = 0.1  # the longest pause; a check may take long because of a fork bomb
_HIDDEN = 2  # multiple of the disk limit: a job that wrote this much while as much free space disappeared is ended
_STATE, _PARENT, _THREADS = 0, 1, 17  # fields of /proc/<pid>/stat after the closing bracket of the command


class FamilyWatch(TreeWatch):
    """Watches the descendants of this process, which is their subreaper, and their private folder.

    Attributes:
        counted_by_kernel: Whether the kernel counts the threads, with a control group or an RLIMIT_NPROC for these
            processes alone. The kernel then refuses new threads over the limit, so reaching it does not end the job.
    """

    def __init__(self, folder: str, group: Group | None) -> None:
        super().__init__(folder, group)
        self.counted_by_kernel = False
        self._next_look = 0.0
        self._late = ""

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        """Start measuring, like `TreeWatch.begin`. Without a workspace, also watch the file system of the folder."""
        super().begin(limits, worker, workspace)
        if not workspace:  # a walk cannot find deleted files that are mapped or in transit through a socket
            self._space = SharedSpace(self._disk, _HIDDEN * limits["disk_bytes"])

    def used_alone(self, worker: int) -> Used | None:  # noqa: ARG002  (the signature of the base class)
        """Check the number of tasks one last time. Return None, because the host's pids say nothing about one job."""
        self._late = self._count_tasks(descendants(os.getpid()))
        if self._late:
            self._hits.add(self._late)
        return None

    def exceeded(self) -> str:
        """Check once, like `TreeWatch.exceeded`, and also for "disk" and "processes", which nothing else enforces."""
        started = time.monotonic()
        if started < self._next_look:
            return ""
        reason = self._look()
        finished = time.monotonic()
        self._next_look = finished + min(_IDLE_SHARE * (finished - started), _LONGEST_IDLE_S)
        return reason

    def _look(self) -> str:
        threads = descendants(os.getpid())
        over = self._count_tasks(threads) or self._weigh(list(threads))
        if not over:
            over = "cpu" if self._cpu_now(list(threads)) > self._limits["cpu_s"] else ""
        if not over and (self._measure_disk(list(threads)) or self._filled(list(threads))):
            over = "disk"
        if over:
            self._hits.add(over)
        return over

    def over_at_the_end(self) -> str:
        """Return a limit that the job exceeded at its end, unnoticed by the checks before; "" if there is none."""
        return self._late or ("disk" if self._measure_disk([]) else "")

    def _count_tasks(self, threads: dict[str, int]) -> str:
        """Return "processes" if there are more tasks than allowed. `threads` maps processes to numbers of threads."""
        tasks, limit = sum(threads.values()), max(self._limits["processes"], self._limits["threads"])
        if tasks >= limit:
            self._hits.add("processes")
        if tasks > limit and not self.counted_by_kernel:
            return "processes"
        return self._count(len(threads))

    def _look_at_disk(self) -> None:
        self._measure_disk([])

    def _measure_disk(self, pids: list[str]) -> bool:
        """Return whether the files in the folder, with deleted files that are still open, exceed the disk limit.

        If the files have reached the limit, record that.
        """
        size, entries = places.measure(self._disk)
        size += _deleted_but_open(pids)
        limit = self._limits["disk_bytes"]
        if size >= limit or entries > places.MAX_ENTRIES:
            self._hits.add("disk")
        return size > limit + _SLACK or entries > places.MAX_ENTRIES


def descendants(head: int, without: Collection[int] = ()) -> dict[str, int]:
    """Return the number of threads of each descendant of `head`, by pid, except for the subtrees of `without`.

    Orphans that have ended and that `head` has not reaped yet are omitted, because the delay is not the job's fault.
    Parents are read from /proc/<pid>/stat, because not every kernel has /proc/<pid>/task/<tid>/children.
    """
    parents: dict[str, str] = {}
    threads: dict[str, int] = {}
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            fields = readings.read(f"{pid}/stat").rpartition(b")")[2].split()
            if fields and (fields[_STATE] != b"Z" or int(fields[_PARENT]) != head):
                parents[pid], threads[pid] = fields[_PARENT].decode(), int(fields[_THREADS])
    for excluded in without:
        parents.pop(str(excluded), None)
    below = {str(head)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below and pid not in below}
        below |= more
        grown = bool(more)
    return {pid: threads[pid] for pid in below if pid != str(head) and pid in threads}


def _deleted_but_open(pids: list[str]) -> int:
    """Return the size in bytes of open files that have been deleted."""
    seen: set[tuple[int, int]] = set()
    size = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # ended while it was checked
            for name in os.listdir(f"/proc/{pid}/fd"):
                size += _deleted_size(f"/proc/{pid}/fd/{name}", seen)
    return size


def _deleted_size(path: str, seen: set[tuple[int, int]]) -> int:
    try:
        found = os.stat(path)
    except OSError:  # closed while it was checked
        return 0
    key: Any = (found.st_dev, found.st_ino)
    if found.st_nlink or not stat.S_ISREG(found.st_mode) or key in seen:
        return 0
    seen.add(key)
    return found.st_blocks * _BLOCK
