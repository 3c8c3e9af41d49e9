"""How much of a file system that others use as well a job has used up. Standard library only.

Free space tells what has gone, not who took it; the kernel's counters tell what a process wrote, not what is left of
it. So both are read at every look, and of what has gone since the last one a job is charged no more than it wrote.
"""

import os
import time
from collections.abc import Iterable

from sandbox.linux import readings

_CERTAINLY = 4  # times the limit gone: then the folder itself is measured, whatever the counters say
_BLOCK = 512  # of st_blocks, whatever the file system
_CLOCK_STEP_S = 1.0  # a file system's clock may be behind


class SharedSpace:
    """Create it before the job begins. limit: bytes the job may use up below `folder`."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._started = time.time() - _CLOCK_STEP_S
        self._free_before = self._free = readings.free_bytes(folder)
        self._written: dict[str, int] = {}
        self._unspent = 0
        self._charged = 0
        self._measure_at = _CERTAINLY * limit

    def used_up(self, pids: Iterable[str]) -> bool:
        """Look once; whether the job is over its limit. pids: of all its processes."""
        written = self._written_since(pids)
        free = readings.free_bytes(self._folder)
        gone, self._free = self._free - free, free
        if gone <= 0:
            self._charged = max(0, self._charged + gone)
            self._unspent = written
        else:
            taken = min(gone, written + self._unspent)  # what was written just before the last look may go after it
            self._charged += taken
            self._unspent = max(0, written - taken)
        in_all = self._free_before - free
        if in_all <= self._limit:
            return False
        return self._charged > self._limit or self._holds_more_than_it_may(in_all)

    def _written_since(self, pids: Iterable[str]) -> int:
        """Bytes these processes wrote since the last look. One that hides its counters counts for all there is."""
        before, self._written = self._written, {}
        since = 0
        for pid in pids:
            written = readings.written_bytes(pid)
            if written is None:
                return self._free_before
            self._written[pid] = written
            earlier = before.get(pid, 0)
            since += written - earlier if written >= earlier else written  # less: another process, with the same pid
        return since

    def _holds_more_than_it_may(self, gone: int) -> bool:
        """Whether files changed since the start hold more. As a walk may be long: once each time as much has gone."""
        if gone < self._measure_at:
            return False
        self._measure_at = gone + self._limit
        held = 0
        for folder, _, names, descriptor in os.fwalk(self._folder, follow_symlinks=False):
            del folder
            for name in names:
                try:
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except OSError:  # it is gone again
                    continue
                if found.st_ctime >= self._started:
                    held += found.st_blocks * _BLOCK
            if held > self._limit:
                return True
        return False
