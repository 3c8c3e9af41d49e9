"""Measures kernels, compared with stock ones: first result, round trips, large outputs, memory and idle cost."""

import asyncio
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.kernels import idle, starts, trips
from bench.kernels.clients import kernelspecs
from bench.table import show
from bench.timing import Series

_TRIPS_PER_ROUND = 5
_MOST_KERNELS = 6  # the most kernels held at once when memory is measured
_WATCHED_S = 20.0  # how long idle kernels are measured


def bench(rounds: int, console: Console, *, watched_s: float = _WATCHED_S) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with ratios to a stock kernel. The last row is the machine's load.

    Args:
        watched_s: The time during which idle kernels are measured, in seconds.
    """
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as folder, kernelspecs(Path(folder)):
        first, round_trips, idle_costs = asyncio.run(_run(rounds, console, watched_s))
    rows = [
        *_rows("start", first, starts.PLAIN),
        *_rows("trip", round_trips, trips.PLAIN),
        *_costs(idle_costs),
        {"what": "load", "before": before, "after": os.getloadavg()},
    ]
    _show(rows, console)
    return rows


async def _run(rounds: int, console: Console, watched_s: float) -> tuple[list[Series], list[Series], list[idle.Cost]]:
    with Progress(console=console, transient=True) as progress:
        small = rounds * _TRIPS_PER_ROUND
        tasks = [progress.add_task(name, total=total) for name, total in (("first cells", rounds + 1), ("trips", None))]
        idle_costs = await idle.costs(max(1, min(rounds, _MOST_KERNELS)), watched_s)
        first = await starts.starts(rounds, lambda: progress.advance(tasks[0]))
        return first, await trips.trips(small, lambda: progress.advance(tasks[1])), idle_costs


def _rows(what: str, found: Iterable[Series], plain: str) -> list[dict[str, Any]]:
    found = list(found)
    p50 = {series.title: series.p50 for series in found if series.way == plain}
    return [{"what": what, **each.as_dict(), "ratio": each.p50 / p50[each.title]} for each in found]


def _costs(found: list[idle.Cost]) -> list[dict[str, Any]]:
    pss = next(each.pss for each in found if each.way == idle.PLAIN)
    return [
        {"what": "idle", **each.as_dict(), "ratio": each.pss / pss if each.pss is not None and pss else None}
        for each in found
    ]


def _show(rows: list[dict[str, Any]], console: Console) -> None:
    ratio = "ratio to stock, ipc"
    times = ("p50_ms", "p95_ms", "p99_ms")
    show(console, rows, "start", "Until the first cell's result, milliseconds", *times, ratio=ratio)
    show(console, rows, "trip", "Round trip in a kernel that is ready, milliseconds", "code", *times, ratio=ratio)
    fields = ("pss_mib", "of_process_1_mib", "cpu_percent")
    show(console, rows, "idle", "Each additional idle kernel: PSS, processor time in percent", *fields, ratio=ratio)
    load = rows[-1]
    console.print(
        "Load of the machine (1, 5, 15 minutes): "
        + "; ".join(f"{when} {', '.join(f'{each:.1f}' for each in load[when])}" for when in ("before", "after"))
    )
