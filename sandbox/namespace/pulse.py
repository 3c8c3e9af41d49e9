"""Keeps the kernel ready to move processes between control groups while boxes are being made. Standard library only.

The first move after a pause waits for an RCU grace period (8 to 20 ms measured, kernel 6.18); moves soon after it do
not: see `rcu_sync_enter` in ``kernel/rcu/sync.c``, called by ``cgroup_procs_write``. The mount option ``favordynmods``
avoids the wait permanently and for the whole machine. This module avoids the wait only while boxes are requested, by
regularly moving a process into the group that it is already in. One such move takes about 6 microseconds.
"""

import contextlib
import os
import time

from sandbox.linux.cgroups import Layout

_PERIOD_MS = 4  # shorter than any grace period, which lasts at least one tick of the kernel's clock
_LASTS_S = 2.0


class Pulse:
    """Keeps moves between control groups fast. Call `beat` every `wait_ms`. Does nothing without control groups."""

    def __init__(self, layout: Layout | None) -> None:
        self._until = 0.0
        self._own = -1
        with contextlib.suppress(OSError):
            if layout is not None:
                self._own = os.open(_own_group(layout), os.O_WRONLY | os.O_CLOEXEC)

    def extend(self) -> None:
        """Keep moves fast for the next `_LASTS_S`, because boxes are being made."""
        self._until = time.monotonic() + _LASTS_S

    @property
    def wait_ms(self) -> int | None:
        """The time until the next call of `beat`, in milliseconds; None if no call is needed."""
        return _PERIOD_MS if self._own >= 0 and time.monotonic() < self._until else None

    def beat(self) -> None:
        """Move this process into its own group. Takes up to 20 ms after a pause."""
        if self.wait_ms is not None:
            with contextlib.suppress(OSError):  # a refused move has waited for the grace period, too
                os.write(self._own, b"0")


def _own_group(layout: Layout) -> str:
    """Return the path of the file that moves processes into this process's control group.

    Raises:
        OSError: The group cannot be determined.
    """
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if (layout.version == 1 and "memory" in controllers.split(",")) or (
                layout.version != 1 and not controllers
            ):
                return f"{layout.folders[0]}{path}/cgroup.procs"
    raise FileNotFoundError("this process is not in a control group")
