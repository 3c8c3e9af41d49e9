"""Measures whether a method notices that no tool answers a request.

The catalogue has every other tool of the short requests. Answerable requests are compared with out-of-scope requests,
with small talk, and with requests for the tools that were left out. The AUROC is the probability that the best result
of an answerable request has a higher confidence. The shares offered and refused are those of the default setting
`[skills] fits`, which only our method has.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.retrieval.figures import auroc
from bench.retrieval.methods import Method, Search
from bench.retrieval.public_data import SMALL_TALK, Data
from bench.retrieval.short_requests import divided, with_known
from bench.table import show
from engine.app.settings import SkillSettings

KNOWN = (0, 10)
OURS = "ours"
FIELDS = ("out of scope", "small talk", "removed tools")


def bench(
    data: Data, out_of_scope: Sequence[str], methods: Mapping[str, Method], console: Console
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows.

    Args:
        out_of_scope: May be empty.
    """
    known, tested = divided(data)
    kept = {each.id for each in data.documents if int(sha256(f"kept {each.id}".encode()).hexdigest(), 16) % 2}
    documents = [each for each in data.documents if each.id in kept]
    answerable = [one.text for one in tested if one.relevant <= kept]
    others = {
        "out of scope": out_of_scope,
        "small talk": SMALL_TALK,
        "removed tools": [one.text for one in tested if not one.relevant & kept],
    }
    least = SkillSettings().fits
    rows: list[dict[str, Any]] = []
    for most in KNOWN:
        base: float | None = None
        for way, method in methods.items():
            search = method(with_known(documents, known, most))
            title = f"Refusals, {most} known: {way}"
            of_answerable = _confidences(answerable, search, title, console)
            of_others = {name: _confidences(texts, search, title, console) for name, texts in others.items()}
            found = {name: auroc(of_answerable, values) if values else None for name, values in of_others.items()}
            base = base or found["removed tools"]
            ratio = (found["removed tools"] or 0.0) / (base or 1.0)
            row = {"what": f"auroc, {most} known", "way": way, "count": len(answerable), **found, "ratio": ratio}
            rows.append(row)
            if way == OURS:
                rows += _offered(most, least, {"answerable": of_answerable, **of_others})
    for most in KNOWN:
        title = f"AUROC of the confidence in the best result, {most} known requests per tool"
        show(console, rows, f"auroc, {most} known", title, *FIELDS, ratio="removed, ratio to words")
    title = f"Share of requests for which something is offered, fits = {least:g}"
    show(console, rows, "offered", title, "offered", ratio="")
    return rows


def _offered(most: int, least: float, confidences: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    return [
        {
            "what": "offered",
            "way": f"{most} known: {name}",
            "count": len(values),
            "offered": sum(value >= least for value in values) / len(values),
            "ratio": None,
        }
        for name, values in confidences.items()
        if values
    ]


def _confidences(texts: Sequence[str], search: Search, title: str, console: Console) -> list[float]:
    results = (search(text) for text in track(texts, title, console=console, transient=True))
    return [found[0].confidence if found else 0.0 for found in results]
