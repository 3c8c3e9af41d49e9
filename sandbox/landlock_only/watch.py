"""What all processes of a job use together, when the host's /proc is the only one. Standard library only."""

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
_SLACK = 1 << 20  # a file system's own blocks; a file that ended just at the limit is not over it
_IDLE_SHARE = 9  # a look that took 1 ms is followed by 9 ms without one: a machine may have thousands of processes
_LONGEST_IDLE_S = 0.1  # where a look took long there may be a fork bomb
_HIDDEN = 2  # so many times its disk, gone from a file system that others use as well, and as much written by the job
_PARENT, _THREADS = 1, 17  # fields of /proc/<pid>/stat after the command's closing bracket


class FamilyWatch(TreeWatch):
    """Watches the descendants of this process, of which it is the subreaper, and their private folder.

    counted_by_kernel: a group or an RLIMIT_NPROC of theirs alone counts their threads, so that reaching that number is
    no reason to end them.
    """

    def __init__(self, folder: str, group: Group | None) -> None:
        super().__init__(folder, group)
        self.counted_by_kernel = False
        self._next_look = 0.0
        self._late = ""

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        """As `TreeWatch.begin`. Without a workspace it is the folder's file system that must not fill up."""
        super().begin(limits, worker, workspace)
        if not workspace:  # what no walk finds: deleted files that are mapped, or on their way through a socket
            self._space = SharedSpace(self._disk, _HIDDEN * limits["disk_bytes"])

    def used_alone(self, worker: int) -> Used | None:  # noqa: ARG002  (asked as in a namespace)
        """Never known here: the pids of the host tell nothing about one job. The moment is used for a last look."""
        self._late = self._count_tasks(descendants(os.getpid()))
        if self._late:
            self._hits.add(self._late)
        return None

    def exceeded(self) -> str:
        """As `TreeWatch.exceeded`; also "disk" and "processes", which no one else bounds here."""
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
        """What the job was over when it ended, although nobody looked in time; "" for nothing."""
        return self._late or ("disk" if self._measure_disk([]) else "")

    def _count_tasks(self, threads: dict[str, int]) -> str:
        """threads: how many each process has."""
        tasks, limit = sum(threads.values()), max(self._limits["processes"], self._limits["threads"])
        if tasks >= limit:
            self._hits.add("processes")
        if tasks > limit and not self.counted_by_kernel:
            return "processes"
        return self._count(len(threads))

    def _look_at_disk(self) -> None:
        self._measure_disk([])

    def _measure_disk(self, pids: list[str]) -> bool:
        """Whether the folder, with the files that are deleted and still open, is over; a hit when it is full."""
        size, entries = places.measure(self._disk)
        size += _deleted_but_open(pids)
        limit = self._limits["disk_bytes"]
        if size >= limit or entries > places.MAX_ENTRIES:
            self._hits.add("disk")
        return size > limit + _SLACK or entries > places.MAX_ENTRIES


def descendants(head: int, without: Collection[int] = ()) -> dict[str, int]:
    """Every process below this one but those of the branches `without`, and how many threads it has.

    By the parent's id in /proc/<pid>/stat: /proc/<pid>/task/<tid>/children is a kernel's option.
    """
    parents: dict[str, str] = {}
    threads: dict[str, int] = {}
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            fields = readings.read(f"{pid}/stat").rpartition(b")")[2].split()
            if fields:
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
    """Bytes of files that no folder shows any more."""
    seen: set[tuple[int, int]] = set()
    size = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended while we looked
            for name in os.listdir(f"/proc/{pid}/fd"):
                size += _deleted_size(f"/proc/{pid}/fd/{name}", seen)
    return size


def _deleted_size(path: str, seen: set[tuple[int, int]]) -> int:
    try:
        found = os.stat(path)
    except OSError:  # closed while we looked
        return 0
    key: Any = (found.st_dev, found.st_ino)
    if found.st_nlink or not stat.S_ISREG(found.st_mode) or key in seen:
        return 0
    seen.add(key)
    return found.st_blocks * _BLOCK
