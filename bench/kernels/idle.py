"""Measures the cost of each additional idle kernel: memory (PSS, which divides shared pages) and processor time.

The figure is the growth, summed over all descendants of this process, when kernels are added, divided by the number of
added kernels.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.boxes.memory import descendants, pss_mib
from bench.kernels.clients import STOCK, ready_kernel, run_in_pool
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner
from sandbox.namespace.backend import NamespaceSandbox

POOL = "knackbox"
PLAIN = "stock, ipc"
_CELL = "6 * 7"
_SETTLE_S = 2.0

_Start = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one kernel.

    Attributes:
        pss: MiB, or None if this user may not read it.
        of_process_1: The part of `pss` that belongs to process 1.
        cpu: Percent of a processor.
    """

    way: str
    count: int
    pss: float | None
    of_process_1: float | None
    cpu: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "count": self.count,
            "pss_mib": self.pss,
            "of_process_1_mib": self.of_process_1,
            "cpu_percent": self.cpu,
        }


@dataclass(frozen=True, slots=True)
class _Sum:
    """Totals over processes.

    Attributes:
        pss: MiB of the processes that are process 1 of a pid namespace (True), and of all others (False); None if this
            user may not read it.
        cpu_s: Processor time of all threads so far, in seconds.
    """

    pss: dict[bool, float] | None
    cpu_s: float


async def costs(more: int, watched_s: float) -> list[Cost]:
    """Measure the cost of `more` kernels started after a first one.

    Args:
        watched_s: The time during which processor time is measured, in seconds.
    """
    found = []
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(NamespaceSandbox())
        pool = await stack.enter_async_context(KernelPool(box, PoolConfig(warm=0, most=more + 1)))
        owners = (KernelOwner("bench", f"agent {number}") for number in range(more + 1))
        found.append(await _measure(POOL, lambda: run_in_pool(pool, next(owners), _CELL), more, watched_s))
    async with AsyncExitStack() as stack:
        found.append(await _measure(PLAIN, partial(_enter, stack), more, watched_s))
    return found


async def _enter(stack: AsyncExitStack) -> None:
    await stack.enter_async_context(ready_kernel(STOCK, "ipc"))


async def _measure(way: str, start: _Start, more: int, watched_s: float) -> Cost:
    before = set(descendants(os.getpid()))
    await start()
    await asyncio.sleep(min(_SETTLE_S, watched_s))
    few = _sum(before)
    idle_few = await _idle_s(before, watched_s)
    for _ in range(more):
        await start()
    await asyncio.sleep(min(_SETTLE_S, watched_s))
    many = _sum(before)
    idle_many = await _idle_s(before, watched_s)
    pss = first = None
    if few.pss is not None and many.pss is not None:
        pss = (sum(many.pss.values()) - sum(few.pss.values())) / more
        first = (many.pss[True] - few.pss[True]) / more
    return Cost(way, more, pss, first, 100 * max(0.0, idle_many - idle_few) / watched_s / more)


async def _idle_s(before: set[int], watched_s: float) -> float:
    start = _sum(before).cpu_s
    await asyncio.sleep(watched_s)
    return _sum(before).cpu_s - start


def _sum(before: set[int]) -> _Sum:
    pids = [pid for pid in descendants(os.getpid()) if pid not in before]
    pss = {True: 0.0, False: 0.0}
    cpu_s = 0.0
    readable = True
    for pid in pids:
        cpu_s += _cpu_s(pid)
        try:
            pss[_is_first(pid)] += pss_mib(pid)
        except PermissionError:
            readable = False
    return _Sum(pss if readable else None, cpu_s)


def _is_first(pid: int) -> bool:
    """Return whether a process is process 1 of a pid namespace."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) > 2 and line.split()[-1] == "1"
    return False


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process in seconds; 0 if it has ended.

    It reads schedstat, which counts nanoseconds; /proc/<pid>/stat counts hundredths of a second.
    """
    total = 0
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
