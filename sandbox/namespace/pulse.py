"""Keeps the kernel ready to move processes between control groups, while boxes are being made. Standard library only.

The first move after a pause waits for an RCU grace period (8 to 20 ms measured, kernel 6.18), those soon after it do
not: `rcu_sync_enter` in the kernel's ``kernel/rcu/sync.c``, below ``cgroup_procs_write``. It is what the mount option
``favordynmods`` does for the whole machine and for good; this does it for as long as somebody asks for boxes, by moving
a process into the group in which it is. One beat takes some 6 microseconds.
"""

import contextlib
import os
import time

from sandbox.linux.cgroups import Layout

_PERIOD_MS = 4  # shorter than any grace period, of which each lasts at least one tick of the kernel's clock
_LASTS_S = 2.0


class Pulse:
    """For one process, which must call `beat` every `wait_ms`. Does nothing where there are no control groups."""

    def __init__(self, layout: Layout | None) -> None:
        self._until = 0.0
        self._own = -1
        with contextlib.suppress(OSError):
            if layout is not None:
                self._own = os.open(_own_group(layout), os.O_WRONLY | os.O_CLOEXEC)

    def extend(self) -> None:
        """Go on for a while: boxes are being made."""
        self._until = time.monotonic() + _LASTS_S

    @property
    def wait_ms(self) -> int | None:
        """Until the next beat; None when there is none to come."""
        return _PERIOD_MS if self._own >= 0 and time.monotonic() < self._until else None

    def beat(self) -> None:
        """Takes up to 20 ms after a pause."""
        if self.wait_ms is not None:
            with contextlib.suppress(OSError):  # the wait is over by the time a move is refused
                os.write(self._own, b"0")


def _own_group(layout: Layout) -> str:
    """The file that moves processes into the group this one is in. Raises OSError."""
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if (layout.version == 1 and "memory" in controllers.split(",")) or (
                layout.version != 1 and not controllers
            ):
                return f"{layout.folders[0]}{path}/cgroup.procs"
    raise FileNotFoundError("this process is in no group")
