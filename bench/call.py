"""Times one call of a small Python function through the whole engine, compared with other ways to run the same code.

The measured call is `engine.call` of an acquired skill, including look-up, validation, a fresh box and the journal.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.peers import PLAIN, Peer, bubblewrap, docker_run, plain
from bench.skills import SKILLS, BenchSkill, teach
from bench.timing import Series, measure
from engine import Engine


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print a table, and return its rows."""
    found = asyncio.run(_run(rounds, console))
    for peer in _peers(Path(tempfile.gettempdir()), SKILLS[0]):
        if peer.absent:
            console.print(f"left out: {peer.name}: {peer.absent}", style="dim")
    _show(found, console)
    return [series.as_dict() for series in found]


def _peers(folder: Path, skill: BenchSkill) -> list[Peer]:
    script = folder / f"{skill.name}_script.py"
    call = f"print({skill.name}(**{json.dumps(dict(skill.arguments))}))\n"
    script.write_text(f"{skill.code}\n\n{call}")
    return [plain(script), bubblewrap(script), docker_run(script)]


async def _run(rounds: int, console: Console) -> list[Series]:
    """Return one series for each skill and candidate."""
    found: list[Series] = []
    with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as home:
        async with Engine.open(home=Path(home), environ={}) as engine:
            for skill in SKILLS:
                await teach(engine, skill)
                ways: dict[str, Callable[[], Awaitable[Any]]] = {
                    "knackbox: skill in a fresh box": partial(engine.call, skill.name, skill.arguments)
                }
                ways |= {peer.name: peer.run for peer in _peers(Path(home), skill) if not peer.absent}
                with Progress(console=console, transient=True) as progress:
                    task = progress.add_task(f"{skill.title}, {len(ways)} ways", total=rounds)
                    found += await measure(skill.title, ways, rounds, partial(progress.advance, task))
    return found


def _show(found: list[Series], console: Console) -> None:
    """Print a table with the ratio to a plain process that runs the same code."""
    table = Table(title="From code to result, milliseconds", title_justify="left")
    for column in ("code", "way"):
        table.add_column(column)
    for column in ("count", "p50", "p95", "p50 ratio to plain"):
        table.add_column(column, justify="right")
    plain_p50 = {series.title: series.p50 for series in found if series.way == PLAIN}
    for series in found:
        ratio = series.p50 / plain_p50[series.title]
        table.add_row(
            series.title,
            series.way,
            str(series.count),
            f"{series.p50:.2f}",
            f"{series.p95:.2f}",
            f"{ratio:.3f}",
        )
    console.print(table)
