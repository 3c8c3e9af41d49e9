"""Watches boxes that have a native process 1 from their supervisor, which sees them from outside.

Most jobs end before the first check, so the engine asks for a watch only when a job has run for a moment. Standard
library only.
"""

import contextlib
import errno
import os
import time
from typing import Any

from sandbox.linux import readings
from sandbox.linux.cgroups import Group
from sandbox.linux.shared_space import SharedSpace
from sandbox.linux.tree_checks import TreeChecks

UNWATCHABLE = "killed"
"""The reason why a box is ended that cannot be watched: a member of `sandbox.contract.End`."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.02, 0.05
_REST, _MOST_REST_S = 4, 0.25  # after a long check, the pause is this many times as long as the check
_ENDED = (errno.ENOENT, errno.ESRCH, errno.ENODEV)  # what /proc says after its last process has ended


class OutsideWatch(TreeChecks):
    """Checks the limits of one direct box."""

    def __init__(self, order: dict[str, Any], descriptors: list[int], group: Group | None) -> None:
        """Start measuring.

        Args:
            order: The engine's order: the job's `limits`, what the worker had used `before` the job, and the `free`
                bytes of the workspace at that time.
            descriptors: The box's /proc, its tmpfs, and its workspace if the job may write to the host's folder.
            group: The box's control group, to read its CPU time; None without control groups.
        """
        self._open = descriptors
        proc, disk, *workspace = (f"/proc/self/fd/{each}/." for each in descriptors)  # the folder, not the link to it
        super().__init__(disk, group, proc, order["before"]["own_bytes"])
        self._limits = order["limits"]
        self._cpu_before = order["before"]["cpu_s"]
        if workspace:
            self._space = SharedSpace(workspace[0], self._limits["disk_bytes"], order["free"], proc)

    def findings(self) -> dict[str, Any]:
        """Return the limits that were exceeded, the peak of the memory, and the CPU time of all processes seen."""
        return {"hits": sorted(self._hits), "peak_bytes": self._peak, "cpu_s": self._cpu_of_seen()}

    def close(self) -> None:
        for descriptor in (*self._open, *(self._group.descriptors if self._group else ())):
            if descriptor >= 0:
                os.close(descriptor)

    def _cpu_of_reaped(self) -> float:
        process_1 = readings.cpu("1", self._proc)
        return process_1.children_s if process_1 else 0.0


class Watches:
    """The watched boxes of a supervisor, each with the time of its next check."""

    def __init__(self) -> None:
        self._watches: dict[int, OutsideWatch] = {}
        self._next: dict[int, tuple[float, float]] = {}  # box id -> (time of the next check, pause before it)

    def begin(self, box_id: int, watch: OutsideWatch) -> None:
        self._watches[box_id] = watch
        self._next[box_id] = (time.monotonic(), _FIRST_PAUSE_S)

    def end(self, box_id: int) -> dict[str, Any]:
        """Stop watching a box; return the findings."""
        watch = self._watches.pop(box_id, None)
        self._next.pop(box_id, None)
        if watch is None:  # it could not be watched, and was ended for that reason
            return {"hits": [], "peak_bytes": 0, "cpu_s": 0.0}
        with contextlib.closing(watch):
            return watch.findings()

    def wait_ms(self) -> float | None:
        """Return the time until the next check; None if there is nothing to check."""
        if not self._next:
            return None
        return max(0.0, min(at for at, _ in self._next.values()) - time.monotonic()) * 1000

    def look(self) -> list[tuple[int, str]]:
        """Check the boxes whose time has come. Return those that exceed a limit, with its name, each of them once."""
        over = []
        for box_id, (at, pause) in list(self._next.items()):
            if time.monotonic() < at:
                continue
            reason, began = "", time.monotonic()
            try:
                reason = self._watches[box_id].exceeded()
            except OSError as problem:
                if problem.errno not in _ENDED:
                    reason = UNWATCHABLE
            except Exception:  # noqa: BLE001 -- one box must not end the others, and must not go on unwatched
                reason = UNWATCHABLE
            if reason:
                over.append((box_id, reason))
                del self._next[box_id]
            else:
                now = time.monotonic()
                rest = min(_REST * (now - began), _MOST_REST_S)  # so that one box cannot keep the supervisor busy
                self._next[box_id] = (now + max(pause, rest), min(2 * pause, _LAST_PAUSE_S))
        return over
