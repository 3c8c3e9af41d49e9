"""`knackbox bench turns`: the run, its record and its picture."""

import asyncio
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.turns.plot import draw
from bench.turns.run import TurnRecord, run, whole

LINES, PICTURE = "turns.jsonl", "two-hundred-turns.svg"


def bench(rounds: int, console: Console, out: Path | None = None) -> list[dict[str, object]]:
    """Play so many turns and tell what happened. out: a folder for one JSON line a turn, and for the picture."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("turns", total=rounds)
        records = asyncio.run(run(whole(rounds), lambda _: progress.advance(task)))
    summary = summarised(records)
    for what, count in summary.items():
        console.print(f"{what:>12}  {count}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / LINES).write_text("".join(f"{record.line()}\n" for record in records))
        draw(records, out / PICTURE)
        console.print(f"written to {out}: {LINES}, {PICTURE}")
    return [summary]


def summarised(records: list[TurnRecord]) -> dict[str, object]:
    """How many turns, how many were answered rightly, and how often each kind of event came."""
    events = Counter(event.partition(":")[0] for record in records for event in record.events)
    return {"turns": len(records), "right": sum(record.ok for record in records), **dict(sorted(events.items()))}
