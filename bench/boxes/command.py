"""Measures boxes: time from code to result, boxes per second and memory, compared with other ways to run code."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.boxes.cancel import cancels
from bench.boxes.code import CODES, Code
from bench.boxes.latency import latencies
from bench.boxes.memory import Footprint, footprints
from bench.boxes.throughput import Rate, rates
from bench.peers import PLAIN, Peer
from bench.table import show
from bench.timing import Series

_RUNS_PER_ROUND = 10  # runs of each candidate per round when throughput is measured
_MOST_BOXES = 16  # the most boxes held at once when memory is measured


@dataclass(frozen=True, slots=True)
class BoxMeasurements:
    """Everything measured in one run."""

    times: list[Series]
    cancelled: Series
    rates: list[Rate]
    memory: list[Footprint]
    absent: list[Peer]


def bench(rounds: int, console: Console, codes: Sequence[Code] = CODES) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with ratios to a plain process that runs the same code."""
    found = asyncio.run(_run(rounds, console, codes))
    for peer in found.absent:
        console.print(f"left out: {peer.name}: {peer.absent}", style="dim")
    _show(found, console)
    return rows(found)


async def _run(rounds: int, console: Console, codes: Sequence[Code]) -> BoxMeasurements:
    with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as folder:
        times, absent = await latencies(codes, Path(folder), rounds, console)
        throughput = await rates(Path(folder), rounds * _RUNS_PER_ROUND, console)
    memory = await footprints(min(rounds, _MOST_BOXES))
    return BoxMeasurements(times, await cancels(rounds), throughput, memory, absent)


def rows(found: BoxMeasurements) -> list[dict[str, Any]]:
    """Return one row for each line of the tables."""
    p50 = {series.title: series.p50 for series in found.times if series.way == PLAIN}
    per_s = next(rate.per_s for rate in found.rates if rate.way == PLAIN)
    pss = next(each.pss for each in found.memory if each.way == PLAIN)
    return [
        *({"what": "time", **each.as_dict(), "ratio": each.p50 / p50[each.title]} for each in found.times),
        {"what": "cancel", **found.cancelled.as_dict(), "ratio": None},
        *({"what": "rate", **each.as_dict(), "ratio": each.per_s / per_s} for each in found.rates),
        *(
            {"what": "memory", **each.as_dict(), "ratio": each.pss / pss if each.pss is not None and pss else None}
            for each in found.memory
        ),
    ]


def _show(found: BoxMeasurements, console: Console) -> None:
    measured = rows(found)
    show(console, measured, "time", "Box alone, code to result, milliseconds", "code", "p50_ms", "p95_ms", "p99_ms")
    show(console, measured, "cancel", "Until a cancelled box is dead, ms", "code", "p50_ms", "p95_ms", "p99_ms")
    show(console, measured, "rate", "Fresh boxes per second, sustained", "at_once", "per_s")
    show(console, measured, "memory", "PSS of each additional waiting box, MiB", "pss_mib")
