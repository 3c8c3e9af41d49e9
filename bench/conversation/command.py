"""`knackbox bench conversation`: a conversation that is longer than the model's window (LOOP-6)."""

import asyncio
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.conversation.forgetful_agent import PAGES
from bench.conversation.plot import draw
from bench.conversation.run import COLOURS, PLACES, VARIANTS, ConversationRecord, run

PICTURE = "long-conversation.svg"


def bench(turns: int, console: Console, out: Path | None = None) -> list[dict[str, Any]]:
    """Play a conversation of `turns` turns in each variant, print a summary, and return it.

    Args:
        out: A folder for the chart.
    """
    messages = turns // (PAGES + 1) + len(COLOURS) * len(PLACES)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("messages", total=messages * len(VARIANTS))
        records = [asyncio.run(run(turns, each, lambda: progress.advance(task))) for each in VARIANTS]
    rows = [summarize(record) for record in records]
    table = Table(title="A long conversation, tokens of requests")
    table.add_column("")
    for row in rows:
        table.add_column(row["variant"], justify="right")
    for name in list(rows[0])[1:]:
        table.add_row(name, *(f"{row[name]:.0%}" if name == "cached" else f"{row[name]:,}" for row in rows))
    console.print(table)
    if out is not None:
        draw(records, out / PICTURE)
        console.print(f"written to {out}: {PICTURE}")
    return rows


def summarize(record: ConversationRecord) -> dict[str, Any]:
    """Return the numbers of one conversation. Tokens per turn are those of requests, at the median of a quarter."""
    quarter = max(len(record.tokens) // 4, 1)
    return {
        "variant": record.variant,
        "turns": len(record.tokens),
        "second quarter": int(median(record.tokens[quarter : 2 * quarter])),
        "last quarter": int(median(record.tokens[-quarter:])),
        "most": max(record.tokens),
        "sum": sum(record.tokens),
        "cached": sum(record.cached) / sum(record.tokens),
        "not cached": sum(record.tokens) - sum(record.cached),
        "compactions": record.compactions,
        "refused": record.refused,
        **{where: record.counting(where) for where in ("prompt", "recall", "handle", "lost")},
        "unreadable": len(record.unreadable),
    }
