"""Measures how many fresh boxes per second all cores can run."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.boxes.code import PLAIN
from bench.boxes.kinds import ProcessOne, kinds
from bench.boxes.latency import run_in
from bench.peers import bubblewrap, plain
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

TEMPLATES = 2
_TASKS_PER_TEMPLATE = 2
_PEERS_SHARE = 4  # a peer is many times slower, so a quarter of the runs is enough


@dataclass(frozen=True, slots=True)
class Rate:
    """The throughput of one candidate.

    Attributes:
        count: The number of runs.
        lanes: The number of jobs that run at the same time.
    """

    way: str
    count: int
    lanes: int
    per_s: float

    def as_dict(self) -> dict[str, Any]:
        return {"way": self.way, "count": self.count, "at_once": self.lanes, "per_s": self.per_s}


async def rates(folder: Path, runs: int, console: Console) -> list[Rate]:
    """Measure boxes, and the peers that start a program for each run."""
    script = PLAIN.script(folder)
    lanes = os.cpu_count() or 1
    found = [await _rate_of_boxes(kind, runs, console) for kind in kinds()]
    peers = [peer for peer in (plain(script), bubblewrap(script)) if not peer.absent]
    few = max(lanes, runs // _PEERS_SHARE)
    return found + [await _rate(peer.name, [peer.run] * lanes, few, console) for peer in peers]


async def _rate_of_boxes(kind: ProcessOne, runs: int, console: Console) -> Rate:
    config = NamespaceConfig(warm=_TASKS_PER_TEMPLATE, max_boxes=_TASKS_PER_TEMPLATE, native=kind.native)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(NamespaceSandbox(config)) for _ in range(TEMPLATES)]
        for box in opened:
            await box.warm_up()
        boxes = [partial(run_in, box, PLAIN) for box in opened for _ in range(_TASKS_PER_TEMPLATE)]
        return await _rate(f"knackbox: {TEMPLATES} templates{kind.note}", boxes, runs, console)


async def _rate(way: str, lanes: Sequence[Callable[[], Awaitable[bool]]], runs: int, console: Console) -> Rate:
    """Run `runs` jobs. Each lane starts its next job when its previous one has ended.

    Raises:
        RuntimeError: A job failed.
    """
    left = runs
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{way}, {len(lanes)} at once", total=runs)

        async def drive(run: Callable[[], Awaitable[bool]]) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                if not await run():
                    raise RuntimeError(f"{way} failed")
                progress.advance(bar)

        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(drive(lane))
        took = time.perf_counter() - start
    return Rate(way, runs, len(lanes), runs / took)
