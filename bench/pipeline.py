"""Measures the overhead of a call: a tool that does nothing, called in process through the whole engine (CALL-10).

Everything is on: validation, access, limits, breakers, retries, deadlines, audit rows and events. The candidates take
turns of ten calls. Every call is timed, even while the audit rows of earlier calls are being written. At the first call
of a turn, the processor's caches are full of other candidates' code, so first calls have a separate column.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.frameworks import FRAMEWORKS, noop
from bench.table import show
from bench.timing import Series
from engine import Engine
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

OURS = "knackbox: whole engine"
_READS = Annotations(read_only=True, idempotent=True)
_WARM_UP = 200
_TURN = 10  # calls of each candidate per turn

Ways = dict[str, Callable[[], Awaitable[Any]]]


async def keyed_noop(key: int) -> int:
    """Return the key.

    Args:
        key: A different one for every call.
    """
    return key


TOOLS = (
    tool(annotations=_READS)(noop),
    tool(name="write_noop", annotations=Annotations(destructive=True))(noop),
    tool(idempotency_key_fields=("key",))(keyed_noop),
)


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with times in microseconds."""
    rows = asyncio.run(_run(rounds, console))
    fields = ("p50_us", "p95_us", "p99_us", "first_us", "ratio")
    ratio = "p50 ratio to knackbox"
    show(console, rows, "plain", "Overhead of one call in process, microseconds", *fields, ratio=ratio)
    show(console, rows, "recorded", "Calls recorded before they run, microseconds", *fields, ratio=ratio)
    return rows


async def _run(rounds: int, console: Console) -> list[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="knackbox-bench-"))
        sources = [StaticSource("bench", TOOLS)]
        engine = await stack.enter_async_context(Engine.open(Path(home), sources=sources, packs=False, environ={}))
        ways: Ways = {OURS: partial(engine.call, "noop", {"number": 1})}
        absent = {each.name: each.absent for each in FRAMEWORKS if each.absent}
        for each in FRAMEWORKS:
            if not each.absent:
                ways[each.name] = await stack.enter_async_context(each.open())
        plain = await _measure("plain", ways, rounds, console)
        keys = count()

        def keyed() -> Awaitable[ToolResult]:
            return engine.call("keyed_noop", {"key": next(keys)})

        recorded: Ways = {
            "destructive": partial(engine.call, "write_noop", {"number": 1}),
            "keyed": keyed,
        }
        recorded_series = await _measure("recorded", recorded, max(rounds // 10, 20), console)
    ours = plain[0].p50
    rows = [_row(each, ours) for each in [*plain, *recorded_series]]
    return rows + [_absent_row(name, why) for name, why in absent.items()]


async def _measure(what: str, ways: Ways, rounds: int, console: Console) -> list[Series]:
    """Return the milliseconds of every call of every candidate. Every tenth call is the first of a turn."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for run in ways.values():
        for _ in range(min(_WARM_UP, rounds)):
            await run()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{what}, {len(ways)} ways", total=rounds)
        for _ in range(max(rounds // _TURN, 1)):
            for way, run in ways.items():
                for _ in range(_TURN):
                    began = time.perf_counter()
                    result = await run()
                    times[way].append((time.perf_counter() - began) * 1e3)
                    if not getattr(result, "success", result):
                        raise RuntimeError(f"{way} failed: {getattr(result, 'error', result)}")
            progress.advance(task, _TURN)
    return [Series(what, way, tuple(values)) for way, values in times.items()]


def _row(series: Series, ours: float) -> dict[str, Any]:
    return {
        "what": series.title,
        "way": series.way,
        "count": series.count,
        "p50_us": series.p50 * 1e3,
        "p95_us": series.p95 * 1e3,
        "p99_us": series.p99 * 1e3,
        "first_us": Series(series.title, series.way, series.times[::_TURN]).p50 * 1e3,
        "ratio": series.p50 / ours,
    }


def _absent_row(name: str, why: str) -> dict[str, Any]:
    """Return a row that says why there are no figures."""
    empty = dict.fromkeys(("p50_us", "p95_us", "p99_us", "first_us", "ratio"))
    return {"what": "plain", "way": f"{name}: {why}", "count": 0, **empty}
