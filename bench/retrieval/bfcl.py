"""Measures recall on precise requests (BFCL), for exact names and with past requests, and wrong offers and refusals."""

import random
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.retrieval.figures import ONE_NAME, RECALL, recall
from bench.retrieval.methods import DEEPEST, Method, Search
from bench.retrieval.public_data import SMALL_TALK, Data, Request, with_examples
from bench.table import show
from engine.app.settings import SkillSettings

FIELDS = (*RECALL, *ONE_NAME)
OURS = "ours"


def bench(data: Data, methods: Mapping[str, Method], console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows."""
    searches = {way: method(data.documents) for way, method in methods.items()}
    rows = [*_quality(data, searches, console), _exact_names(data, searches[OURS])]
    rows += [*_past(data, methods[OURS], console), *_fits(data, methods[OURS], searches[OURS])]
    for what, title in (("all", "BFCL: recall, all requests"), ("unseen", "BFCL: recall, unseen half")):
        show(console, rows, what, title, *FIELDS, ratio="r@5 ratio to words")
    show(console, rows, "past", "BFCL: recall with past requests as examples", *FIELDS, ratio="r@5 ratio to none")
    title = "BFCL: shares refused and offered, by the lowest fit that is offered"
    show(console, rows, "fits", title, "refused", "offered", ratio="ratio to first row")
    title = "BFCL: requests with an exact name that does not rank first"
    show(console, rows, "names", title, "not first", ratio="")
    return rows


def _quality(data: Data, searches: Mapping[str, Search], console: Console) -> list[dict[str, Any]]:
    names = {each.id: each.called for each in data.documents}
    results = {
        way: [(one, search(one.text)) for one in track(data.requests, f"BFCL: {way}", console=console, transient=True)]
        for way, search in searches.items()
    }
    rows: list[dict[str, Any]] = []
    for what, kept in (("all", (True, False)), ("unseen", (False,))):
        base = 0.0
        for way, found in results.items():
            pairs = [pair for pair in found if pair[0].tuned_on in kept]
            row = recall(pairs, names)
            base = base or row["r@5"]
            rows.append({"what": what, "way": way, "count": len(pairs), **row, "ratio": row["r@5"] / max(base, 1e-9)})
    return rows


def _exact_names(data: Data, search: Search) -> dict[str, Any]:
    names = {each.id: each.called for each in data.documents}
    wrong = sum(
        names[search(f"{phrase} {name}")[0].id] != name
        for name in dict.fromkeys(names.values())
        for phrase in ("use", "please send an email about the weather with the skill")
    )
    return {"what": "names", "way": OURS, "count": 2 * len(set(names.values())), "not first": wrong, "ratio": None}


def _past(data: Data, method: Method, console: Console) -> list[dict[str, Any]]:
    """Measure recall for every third request. Each tool has up to 0, 3 or 10 of the other requests as examples."""
    examples: dict[str, list[str]] = {each.id: [] for each in data.documents}
    tested: list[Request] = []
    for number, one in enumerate(sorted(data.requests, key=lambda one: (min(one.relevant), one.text))):
        if number % 3 == 0:
            tested.append(one)
        else:
            for id_ in one.relevant:
                examples[id_].append(one.text)
    names = {each.id: each.called for each in data.documents}
    rows: list[dict[str, Any]] = []
    for most in (0, 3, 10):
        search = method([with_examples(each, examples[each.id][:most]) for each in data.documents])
        title = f"BFCL: {most} known requests"
        row = recall([(one, search(one.text)) for one in track(tested, title, console=console, transient=True)], names)
        base = rows[0]["r@5"] if rows else row["r@5"]
        way = f"at most {most} of a tool"
        rows.append({"what": "past", "way": way, "count": len(tested), **row, "ratio": row["r@5"] / max(base, 1e-9)})
    return rows


def _fits(data: Data, method: Method, search: Search) -> list[dict[str, Any]]:
    """Measure wrong refusals and wrong offers, on the unseen half.

    It is a wrong refusal if the best document for a request is refused, and a wrong offer if a document is offered
    although nothing in the index answers the request.
    """
    names = {each.id: each.called for each in data.documents}
    unseen = [one for one in data.requests if not one.tuned_on]
    hundred = []
    for seed in range(10):
        sample = random.Random(seed).sample(data.documents, min(100, len(data.documents)))
        hundred.append((method(sample), {each.called for each in sample}))
    best, missing, others = [], [], []
    for number, one in enumerate(unseen):
        answers = {names[id_] for id_ in one.relevant}
        found = search(one.text)
        best.append(found[0].confidence if found else 0.0)
        wrong = [each.confidence for each in found[:DEEPEST] if names[each.id] not in answers]
        missing.append(max(wrong, default=0.0))
        small, known = hundred[number % len(hundred)]
        if not known & answers:
            others.append(max((each.confidence for each in small(one.text)[:1]), default=0.0))
    chat = [max((each.confidence for each in search(text)[:1]), default=0.0) for text in SMALL_TALK]
    rows: list[dict[str, Any]] = []
    for least in (SkillSettings().fits, 0.2, 0.3):
        refused = sum(fit < least for fit in best) / max(len(best), 1)
        for way, fits in (("answers taken out", missing), ("100 others", others), ("small talk", chat)):
            offered = sum(fit >= least for fit in fits) / max(len(fits), 1)
            row = {
                "what": "fits",
                "way": f"{least:g}: {way}",
                "count": len(fits),
                "refused": refused,
                "offered": offered,
            }
            rows.append({**row, "ratio": offered / (rows[0]["offered"] or 1.0) if rows else 1.0})
    return rows
