"""Measures recall on requests of one line, with 0, 10 and 32 known requests per tool. The others are tested."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.retrieval.figures import RECALL, recall
from bench.retrieval.methods import Method
from bench.retrieval.public_data import Data, Request, with_examples
from bench.table import show
from engine.retrieval.document import Document

KNOWN = (0, 10, 32)
_EVERY = 8  # every eighth request of a tool is tested; the others may be known


def bench(data: Data, methods: Mapping[str, Method], console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows."""
    known, tested = divided(data)
    rows = [
        row
        for most in KNOWN
        for row in _measured(with_known(data.documents, known, most), tested, most, methods, console)
    ]
    for most in KNOWN:
        for half in ("all", "unseen"):
            title = f"Short requests: recall with at most {most} known requests per tool, {half}"
            show(console, rows, f"{most} known, {half}", title, *RECALL, ratio="r@5 ratio to words")
    return rows


def divided(data: Data) -> tuple[dict[str, list[str]], list[Request]]:
    """Return the requests that may be known to each tool, and the other requests, which are tested."""
    known: dict[str, list[str]] = {each.id: [] for each in data.documents}
    seen = dict.fromkeys(known, 0)
    tested: list[Request] = []
    for one in sorted(data.requests, key=lambda one: (min(one.relevant), one.text)):
        tool = min(one.relevant)
        if seen[tool] % _EVERY == 0:
            tested.append(one)
        else:
            known[tool].append(one.text)
        seen[tool] += 1
    return known, tested


def with_known(documents: Sequence[Document], known: Mapping[str, Sequence[str]], most: int) -> list[Document]:
    """Return the documents with at most `most` known requests each, spread over the known ones."""
    made: list[Document] = []
    for each in documents:
        requests = known[each.id]
        step = max(1.0, len(requests) / most) if most else 1.0
        chosen = [requests[int(at * step)] for at in range(min(most, len(requests)))]
        made.append(with_examples(each, chosen))
    return made


def _measured(
    documents: Sequence[Document],
    tested: Sequence[Request],
    most: int,
    methods: Mapping[str, Method],
    console: Console,
) -> Iterator[dict[str, Any]]:
    base: dict[str, float] = {}
    for way, method in methods.items():
        search = method(documents)
        title = f"Short requests, {most} known: {way}"
        results = [(one, search(one.text)) for one in track(tested, title, console=console, transient=True)]
        for half, kept in (("all", (True, False)), ("unseen", (False,))):
            pairs = [pair for pair in results if pair[0].tuned_on in kept]
            row = recall(pairs)
            ratio = row["r@5"] / max(base.setdefault(half, row["r@5"]), 1e-9)
            yield {"what": f"{most} known, {half}", "way": way, "count": len(pairs), **row, "ratio": ratio}
