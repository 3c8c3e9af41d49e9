"""Measures what a call costs that a program in a box makes over its bridge (CODE-1), and what the bridge itself costs.

The tool does nothing, and everything is on, as in the benchmark `pipeline`. Blocks of calls take turns: in process
through the whole engine, from a program in a box, from async code in a box, and, if it is installed, from the
interpreter pydantic-monty to a function of its host, which has no pipeline and no audit.

It also counts how many of 30 typical programs give the right result in a box and in the peers that are installed.
"""

import asyncio
import importlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench import typical_runs
from bench.pipeline import TOOLS
from bench.table import show
from bench.timing import Series
from engine import Engine
from engine.registry.static import StaticSource

OURS = "in process: whole engine"
_BLOCK = 100  # calls per block
_LONG = 10_000  # calls of the long program
_STARTS = 10  # boxes of each kind per round
_MONTY = "pydantic_monty"

_SYNC = f"""
import time
from knackbox import tools
tools.noop(number=0)
times = []
for number in range({_BLOCK}):
    began = time.perf_counter()
    tools.noop(number=number)
    times.append((time.perf_counter() - began) * 1e3)
times
"""
_GATHERED = f"""
import asyncio, time
from knackbox import tools
async def main():
    await tools.noop(number=0)
    began = time.perf_counter()
    await asyncio.gather(*(tools.noop(number=number) for number in range({_BLOCK})))
    return [(time.perf_counter() - began) * 1e3 / {_BLOCK}] * {_BLOCK}
asyncio.run(main())
"""
_PROGRAM = f"""
import time
from knackbox import tools
tools.noop(number=0)
began = time.perf_counter()
for number in range({_LONG} - 1):
    tools.noop(number=number)
({_LONG} - 1) / (time.perf_counter() - began)
"""

Block = Callable[[], Awaitable[list[float]]]


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows. A round is a block of 100 calls of each candidate."""
    rows = asyncio.run(_run(rounds, console))
    fields = ("p50_us", "p95_us", "ratio")
    show(
        console,
        rows,
        "calls",
        "One call of a tool that does nothing, microseconds",
        *fields,
        ratio="ratio to engine",
    )
    show(console, rows, "start", "A box that computes 1, milliseconds", "p50_ms", "p95_ms", ratio="ratio to no bridge")
    show(console, rows, "program", "10,000 calls in one program", "per_second")
    show(console, rows, typical_runs.WHAT, "Typical programs", "right", ratio="share")
    return rows


async def _run(rounds: int, console: Console) -> list[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="knackbox-bench-"))
        sources = [StaticSource("bench", TOOLS)]
        engine = await stack.enter_async_context(Engine.open(Path(home), sources=sources, environ={}))

        async def in_process() -> list[float]:
            times = []
            for number in range(_BLOCK):
                began = time.perf_counter()
                await engine.call("noop", {"number": number})
                times.append((time.perf_counter() - began) * 1e3)
            return times

        async def program(code: str) -> Any:
            result = await engine.call("execute", {"language": "python", "code": code, "timeout_s": 100})
            if not result.success:
                raise RuntimeError(result.text)
            return result.output["value"]

        ways: dict[str, Block] = {
            OURS: in_process,
            "from a program in a box": lambda: program(_SYNC),
            "gathered in a box": lambda: program(_GATHERED),
        }
        if find_spec(_MONTY) is not None:
            ways["pydantic-monty, host function"] = _monty
        series, starts = await _measure(ways, program, rounds, console)
        speeds = [await program(_PROGRAM) for _ in range(3)]
        typical = {typical_runs.OURS: await typical_runs.in_boxes(engine)}
    for peer in typical_runs.installed():
        typical[peer] = await asyncio.to_thread(typical_runs.in_interpreter, peer)
    right = await asyncio.to_thread(typical_runs.in_interpreter, "plain")
    ours = series[0].p50
    rows: list[dict[str, Any]] = [
        {
            "what": "calls",
            "way": each.way,
            "count": each.count,
            "p50_us": each.p50 * 1e3,
            "p95_us": each.p95 * 1e3,
            "ratio": each.p50 / ours,
        }
        for each in series
    ]
    rows += [
        {
            "what": "start",
            "way": each.way,
            "count": each.count,
            "p50_ms": each.p50,
            "p95_ms": each.p95,
            "ratio": each.p50 / starts[0].p50,
        }
        for each in starts
    ]
    middle = sorted(speeds)[len(speeds) // 2]
    rows.append({"what": "program", "way": "sequential", "count": len(speeds), "per_second": middle, "ratio": 1.0})
    return [*rows, *typical_runs.rows_of(typical, right)]


async def _measure(
    ways: dict[str, Block], program: Callable[[str], Awaitable[Any]], rounds: int, console: Console
) -> tuple[list[Series], list[Series]]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    starts: dict[str, list[float]] = {"without a bridge": [], "with a bridge": []}
    for run in ways.values():
        await run()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{len(ways)} ways", total=rounds)
        for _ in range(rounds):
            for way, run in ways.items():
                times[way] += await run()
            for _ in range(_STARTS):
                for way, code in (("without a bridge", "1"), ("with a bridge", "'knackbox' and 1")):
                    began = time.perf_counter()
                    await program(code)
                    starts[way].append((time.perf_counter() - began) * 1e3)
            progress.advance(task)
    return (
        [Series("calls", way, tuple(values)) for way, values in times.items()],
        [Series("start", way, tuple(values)) for way, values in starts.items()],
    )


async def _monty() -> list[float]:
    """Return the milliseconds of a call of a function of the host from pydantic-monty's worker process.

    Its code has no clock, so the block is timed as a whole, in a session that is open already.
    """
    monty: Any = importlib.import_module(_MONTY)
    code = f"total = 0\nfor number in range({_BLOCK}):\n    total += noop(number)\ntotal"
    with monty.Monty() as pool, pool.checkout() as session:
        session.feed_run("0")
        began = time.perf_counter()
        session.feed_run(code, external_lookup={"noop": lambda number: number})
        return [(time.perf_counter() - began) * 1e3 / _BLOCK] * _BLOCK
