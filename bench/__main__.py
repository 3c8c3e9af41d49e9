"""`make bench`: one call of a small Python function, from code to result, beside its peers.

All ways take turns in one run on one machine, so that a drift of the machine's speed hits them alike. The boxed call is
the whole of it: `engine.call` of an acquired skill, with look-up, validation, a fresh box, and telemetry.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.peers import Peer, peers
from bench.skills import SKILLS, learned
from bench.timing import Series, measure
from engine import Engine


async def run(rounds: int, console: Console) -> list[Series]:
    """One series per skill and way."""
    found: list[Series] = []
    with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as home:
        async with Engine.open(home=Path(home), environ={}) as engine:
            for skill in SKILLS:
                await learned(engine, skill)
                ways = {"knackbox: skill in a fresh box": lambda s=skill: engine.call(s.name, s.arguments)}
                available: list[Peer] = [peer for peer in peers(Path(home), skill) if not peer.absent]
                ways |= {peer.name: peer.run for peer in available}
                with Progress(console=console, transient=True) as progress:
                    task = progress.add_task(f"{skill.title}, {len(ways)} ways", total=rounds)
                    found += await measure(skill.title, ways, rounds, partial(progress.advance, task))
    return found


def show(found: list[Series], console: Console) -> None:
    """A table with the ratio to the plain process of the same code."""
    table = Table(title="code to result, milliseconds", title_justify="left")
    for column in ("code", "way"):
        table.add_column(column)
    for column in ("count", "p50", "p95", "p50 to plain"):
        table.add_column(column, justify="right")
    plain = {series.title: series.p50 for series in found if series.way == "python script.py"}
    for series in found:
        ratio = series.p50 / plain[series.title]
        table.add_row(
            series.title,
            series.way,
            str(series.count),
            f"{series.p50:.2f}",
            f"{series.p95:.2f}",
            f"{ratio:.3f}",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="turns of every way (default 40)")
    parser.add_argument("--json", action="store_true", help="one JSON list on stdout")
    options = parser.parse_args()
    console = Console(stderr=options.json)
    found = asyncio.run(run(options.rounds, console))
    for peer in peers(Path(tempfile.gettempdir()), SKILLS[0]):
        if peer.absent:
            console.print(f"left out: {peer.name}: {peer.absent}", style="dim")
    if options.json:
        json.dump([series.as_dict() for series in found], sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(found, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
