"""`knackbox bench growth`: measures homes with many skills and calls, relative to an empty home in the same run."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.growth.homes import make_home

SIZES = (0, 100, 5_000, 50_000)
CALLS = 1_000_000
STEPS = (
    *("open", "first search", "next search", "list", "stats", "find by name"),
    *("search_tools", "describe_tool", "tool page"),
)


def bench(
    rounds: int, console: Console, sizes: tuple[int, ...] = SIZES, calls: int = CALLS, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Make the homes, then open and use each of them `rounds` times, in turn.

    Args:
        rounds: The number of measured rounds.
        console: Where to print.
        sizes: The number of skills in each home. The first is the baseline of the ratios.
        calls: The number of recorded calls in each home that has skills.
        folder: Where the homes are kept for the next run, or None to delete them.

    Returns:
        One row for each home.
    """
    with tempfile.TemporaryDirectory(prefix="knackbox-growth-") as temporary:
        root = folder or Path(temporary)
        found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
        with Progress(console=console, transient=True) as progress:
            for size in sizes:
                _make(root, size, calls if size else 0, progress)
            task = progress.add_task("opening and searching", total=rounds * len(sizes))
            for round_ in range(rounds + 1):
                for size in sizes:
                    measured = _probe(root / str(size))
                    if round_:  # the first round reads from the disk
                        found[size].append(measured)
                        progress.advance(task)
    rows = [_row(size, found[size], found[sizes[0]]) for size in sizes]
    _show(rows, rounds, console)
    return rows


def _make(root: Path, size: int, calls: int, progress: Progress) -> None:
    home, done = root / str(size), root / f"{size}.made"
    if done.exists():
        return
    task = progress.add_task(f"making a home of {size} skills", total=size + calls)
    make_home(home, size, calls, lambda more: progress.advance(task, more))
    done.touch()
    progress.remove_task(task)


def _probe(home: Path) -> dict[str, float]:
    made = subprocess.run(
        [sys.executable, "-m", "bench.growth.probe", str(home)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=1_800,
    )
    found: dict[str, float] = json.loads(made.stdout)
    return found


def _row(size: int, measured: list[dict[str, float]], empty: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"skills": size, "count": len(measured)}
    for step in STEPS:
        cpu, base = median(each[step] for each in measured), median(each[step] for each in empty)
        row[f"{step} cpu_s"], row[f"{step} ratio"] = cpu, cpu / base
    row["MiB"] = max(each["MiB"] for each in measured)
    row["rows listed"], row["skills found"] = measured[0]["rows"], measured[0]["found"]
    row["chroma imported"] = bool(measured[0]["chroma"])
    return row


def _show(rows: list[dict[str, Any]], rounds: int, console: Console) -> None:
    title = f"Seconds of processor time (ratio to an empty home), median of {rounds}"
    table = Table(title=title, title_justify="left")
    for heading in ("skills", *STEPS, "MiB, peak"):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{row[f'{step} cpu_s']:.3f} ({row[f'{step} ratio']:.1f})" for step in STEPS]
        table.add_row(f"{row['skills']:,}", *cells, f"{row['MiB']:.0f}")
    console.print(table)
