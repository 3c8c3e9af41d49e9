"""`knackbox bench turns`: runs the turns, and writes the record and the chart."""

import asyncio
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.turns.plot import draw
from bench.turns.run import TurnRecord, full_plan, run

LINES, PICTURE = "turns.jsonl", "two-hundred-turns.svg"


def bench(rounds: int, console: Console, out: Path | None = None) -> list[dict[str, object]]:
    """Run `rounds` turns, print a summary, and return it.

    Args:
        out: A folder for the chart, and for the record with one JSON line per turn.
    """
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("turns", total=rounds)
        records = asyncio.run(run(full_plan(rounds), lambda _: progress.advance(task)))
    summary = summarize(records)
    for what, count in summary.items():
        console.print(f"{what:>12}  {count}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / LINES).write_text("".join(f"{record.line()}\n" for record in records))
        draw(records, out / PICTURE)
        console.print(f"written to {out}: {LINES}, {PICTURE}")
    return [summary]


def summarize(records: list[TurnRecord]) -> dict[str, object]:
    """Return the number of turns, the number of right answers, and the number of events of each kind."""
    events = Counter(event.partition(":")[0] for record in records for event in record.events)
    return {"turns": len(records), "right": sum(record.ok for record in records), **dict(sorted(events.items()))}
