"""Measures requests that need several tools: the share with all tools among the first ten results, and recall."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.retrieval.figures import all_found, recall
from bench.retrieval.methods import Method
from bench.retrieval.public_data import Data
from bench.table import show

FIELDS = ("all in 10", "r@5", "r@10")


def bench(data: Data, methods: Mapping[str, Method], console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows."""
    rows: list[dict[str, Any]] = []
    base: dict[str, float] = {}
    for way, method in methods.items():
        search = method(data.documents)
        title = f"Requests for several tools: {way}"
        results = [(one, search(one.text)) for one in track(data.requests, title, console=console, transient=True)]
        for half, kept in (("all", (True, False)), ("unseen", (False,))):
            pairs = [pair for pair in results if pair[0].tuned_on in kept]
            share, found = all_found(pairs, 10), recall(pairs)
            row = {"what": f"several, {half}", "way": way, "count": len(pairs), "all in 10": share}
            ratio = share / max(base.setdefault(half, share), 1e-9)
            rows.append({**row, "r@5": found["r@5"], "r@10": found["r@10"], "ratio": ratio})
    for half in ("all", "unseen"):
        show(console, rows, f"several, {half}", f"Requests for several tools, {half}", *FIELDS, ratio="ratio to words")
    return rows
