"""`SharedSpace`: measures how much of a file system shared with others a job has used up. Standard library only.

The free space shows how much has been used up, but not by whom. The kernel's counters show how much a process wrote,
but not how much of that remains. Each check therefore reads both, and charges the job for the space that is gone, but
for no more than the job wrote.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator

from sandbox.linux import readings

_MEASURE_FACTOR = 4  # measure the folder itself once this many times the limit is gone, whatever the counters say
# Limits of a walk through a workspace, which delays the checks of other boxes.
_MOST_ENTRIES, _MOST_DEPTH, _MOST_WALK_S = 100_000, 64, 0.5
_FOLDERS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 512  # unit of st_blocks, on every file system
_CLOCK_STEP_S = 1.0  # a file system's clock may lag


class SharedSpace:
    """Measures the space that a job uses below `folder`. Create it before the job begins, or soon afterwards."""

    def __init__(self, folder: str, limit: int, free_before: int = -1, proc: str = readings.PROC) -> None:
        """Begin to measure.

        Args:
            folder: The folder.
            limit: The space that the job may use, in bytes.
            free_before: The free space of the file system before the job began, in bytes; -1 for what is free now.
            proc: Where the job's processes are listed.
        """
        self._folder = folder
        self._limit = limit
        self._proc = proc
        self._started = time.time() - _CLOCK_STEP_S
        self._free_before = self._free = readings.free_bytes(folder) if free_before < 0 else free_before
        self._written: dict[str, int] = {}
        self._unspent = 0
        self._charged = 0
        self._measure_at = _MEASURE_FACTOR * limit

    def used_up(self, pids: Iterable[str]) -> bool:
        """Check once, and return whether the job exceeds its limit. `pids` are all processes of the job."""
        written = self._written_since(pids)
        free = readings.free_bytes(self._folder)
        gone, self._free = self._free - free, free
        if gone <= 0:
            self._charged = max(0, self._charged + gone)
            self._unspent = written
        else:
            taken = min(gone, written + self._unspent)  # data written before the last check may reach the disk after it
            self._charged += taken
            self._unspent = max(0, written - taken)
        in_all = self._free_before - free
        if in_all <= self._limit:
            return False
        return self._charged > self._limit or self._holds_more_than_it_may(in_all)

    def _written_since(self, pids: Iterable[str]) -> int:
        """Return the bytes that these processes wrote since the last check.

        If a process hides its count, return all the space that was free at the start.
        """
        before, self._written = self._written, {}
        since = 0
        for pid in pids:
            written = readings.written_bytes(pid, self._proc)
            if written is None:
                return self._free_before
            self._written[pid] = written
            earlier = before.get(pid, 0)
            since += written - earlier if written >= earlier else written  # a smaller count belongs to a new process
        return since

    def _holds_more_than_it_may(self, gone: int) -> bool:
        """Return whether the files that have changed since the start are larger in total than the limit.

        `gone` is how many bytes of free space have been used up since the start. Walking through the folder may be
        slow, so it is done only when `gone` is large, and again after every further `limit` bytes. In a very large
        folder it ends early, and only the processes' counters are used.
        """
        if gone < self._measure_at:
            return False
        self._measure_at = gone + self._limit
        held = 0
        for found in _SpaceWalk().files(self._folder):
            if found.st_ctime >= self._started:
                held += found.st_blocks * _BLOCK
            if held > self._limit:
                return True
        return False


class _SpaceWalk:
    """Yields the files below a folder, for a limited time, number of entries and depth.

    The job may change the folder at the same time, so no link is followed, and nothing is opened that could block.
    """

    def __init__(self) -> None:
        self._deadline = time.monotonic() + _MOST_WALK_S
        self._left = _MOST_ENTRIES

    def files(self, folder: str, parent: int | None = None, depth: int = 0) -> Iterator[os.stat_result]:
        """Yield the status of each file below `folder`, which is relative to the descriptor `parent`."""
        below: list[str] = []
        try:
            opened = os.open(folder, _FOLDERS, dir_fd=parent)
        except OSError:  # replaced or deleted in the meantime
            return
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0 or time.monotonic() > self._deadline:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.name)
                    else:
                        yield from self._status(entry)
            for name in below if depth < _MOST_DEPTH else ():
                if time.monotonic() > self._deadline:
                    return
                yield from self.files(name, opened, depth + 1)
        except OSError:
            return
        finally:
            os.close(opened)

    @staticmethod
    def _status(entry: "os.DirEntry[str]") -> Iterator[os.stat_result]:
        with contextlib.suppress(OSError):
            yield entry.stat(follow_symlinks=False)
