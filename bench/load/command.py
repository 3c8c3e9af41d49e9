"""Measures `knackbox serve` with 1 to 1,000 clients, compared with a server that starts ``python -c`` per request.

Both servers run all the time and are measured in turn, so that changes of the machine's speed affect both equally.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.load.clients import TIMEOUT_S, ClientReport
from bench.load.servers import LoadServer, knackbox, peer

CLIENTS = (1, 10, 100, 1000)
SECONDS = 10.0


@dataclass(slots=True)
class Load:
    """What the clients observed of one server, over all rounds."""

    clients: int
    way: str
    seconds: float = 0.0
    total: ClientReport = field(default_factory=ClientReport)

    def add(self, report: ClientReport, seconds: float) -> None:
        self.seconds += seconds
        total = self.total
        total.within += report.within
        total.timeouts += report.timeouts
        for name in ("served", "refusals", "promises", "errors"):
            getattr(total, name).extend(getattr(report, name))

    def row(self) -> dict[str, Any]:
        """Return the row of the tables.

        In it, `per_s` is the number of calls served within the time, per second, and `kept` the share of refused
        clients that were served when they came back after the announced wait.
        """
        total = self.total
        announced = [each for each in total.promises if each is not None]
        return {
            "clients": self.clients,
            "way": self.way,
            "per_s": total.within / self.seconds,
            **{f"p{share}_ms": percentile(total.served, share / 100) * 1e3 for share in (50, 95, 99)},
            "refusals": len(total.refusals),
            "refused_within_ms": percentile(total.refusals, 1.0) * 1e3,
            "promises": len(announced),
            "kept": sum(kept for _, kept in announced) / len(announced) if announced else None,
            "longest_promise_s": max((wait for wait, _ in announced), default=None),
            "without_retry_after": len(total.promises) - len(announced),
            "timeouts": total.timeouts,
            "errors": len(total.errors),
            "first_error": total.errors[0] if total.errors else "",
        }


def bench(
    rounds: int, console: Console, clients: Sequence[int] = CLIENTS, seconds: float = SECONDS
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with the ratio of the throughput to the peer's."""
    with (
        tempfile.TemporaryDirectory(prefix="knackbox-bench-") as folder,
        knackbox(Path(folder), max(clients)) as ours,
        peer() as theirs,
    ):
        loads = [Load(count, server.way) for count in clients for server in (ours, theirs)]
        for _ in range(rounds):
            for number, count in enumerate(clients):
                for which, server in enumerate((ours, theirs)):
                    with console.status(f"{count} clients of {server.way}"):
                        loads[2 * number + which].add(run_clients(server, count, seconds), seconds)
    rows = [load.row() for load in loads]
    for mine, other in zip(rows[::2], rows[1::2], strict=True):
        mine["ratio"] = mine["per_s"] / other["per_s"] if other["per_s"] else None
        other["ratio"] = 1.0
    show(rows, console)
    return rows


def run_clients(server: LoadServer, clients: int, seconds: float) -> ClientReport:
    """Run clients in another process, and return their report."""
    command = [sys.executable, "-m", "bench.load.clients", server.url, server.token, str(clients), str(seconds)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=seconds + 4 * TIMEOUT_S)
    report = json.loads(done.stdout)
    report["promises"] = [None if each is None else tuple(each) for each in report["promises"]]
    return ClientReport(**report)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile; 0 if there are no values."""
    return sorted(values)[max(0, round(share * len(values)) - 1)] if values else 0.0


def show(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one table of the served calls and one of the rest. Both fit into 80 columns."""
    served = _table("HTTP calls of `6 * 7`", "/s", "p50 ms", "p95 ms", "p99 ms", "ratio")
    others = _table(
        f"Calls that were not served; clients give up after {TIMEOUT_S:g} s",
        "refused", "slowest\nms", "admitted\non time", "timeouts", "errors",
    )  # fmt: skip
    for row in rows:
        kept = "-" if row["kept"] is None else f"{row['kept']:.1%}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        times = (f"{row[f'p{share}_ms']:.1f}" for share in (50, 95, 99))
        served.add_row(str(row["clients"]), row["way"], f"{row['per_s']:.1f}", *times, ratio)
        others.add_row(
            str(row["clients"]), row["way"], str(row["refusals"]), f"{row['refused_within_ms']:.0f}", kept,
            str(row["timeouts"]), str(row["errors"]),
        )  # fmt: skip
    console.print(served)
    console.print(others)
    for row in rows:
        who = f"{row['clients']} clients of {row['way']}"
        if row["without_retry_after"]:
            console.print(f"{who}: {row['without_retry_after']} refusals had no Retry-After", style="dim")
        if row["first_error"]:
            console.print(f"{who}, first error: {row['first_error']}", style="dim")


def _table(title: str, *numbers: str) -> Table:
    """Return a table of numbers by clients and way, where only the way may wrap."""
    table = Table(title=title, title_justify="left")
    table.add_column("clients", justify="right", no_wrap=True)
    table.add_column("way")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
