"""Which tools are found for a request, and how soon: words alone, meaning alone, both by rank (RRF), and ours.

Recall on public requests (`bench.tool_requests`), with exact ids and with tools of one name counted as one, on all and
on the half that no weight was chosen on. Latency through Chroma, as the catalog of skills asks it, the query's
embedding included, and the processor time, which a busy machine changes less. Before that, how often something is
offered where nothing fits, and the other way round.
"""

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.table import show
from bench.timing import Series
from bench.tool_requests import Data, Request, multiplied, read
from engine.app.settings import SkillSettings
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Document
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import Embedder, WordLlamaEmbedder
from engine.stores.records import Records
from engine.stores.vectors import VectorStore

SIZES = (100, 5_000, 50_000)
_AT_ONCE = 2_000  # documents written to an index at a time
CUTS = (1, 5, 10)
DEEPEST = 60
RRF = 60
RETRIEVED = 8
FIELDS = ("r@1", "r@5", "r@10", "one name r@1", "one name r@5", "one name r@10")
# Said to agents, and no request for any tool.
CHAT = """hello there
thanks, that is all for today
how are you doing?
good morning
tell me a joke
who are you
what do you think about love?
I feel tired today
you are wrong
ok, continue
yes please go ahead
write a poem about autumn
that looks great, well done
what is your name
can you explain that again?
no, stop it
let us talk about something else
why did you do that
I had eggs for breakfast
my dog ran away""".splitlines()

Ranking = Callable[[str], list[str]]


def bench(rounds: int, console: Console, folder: Path) -> list[dict[str, Any]]:
    """Measure and show. rounds: requests timed at each size."""
    data, embedder = read(folder), WordLlamaEmbedder()
    index = HybridIndex(MemoryVectors(embedder.dimensions), embedder)
    index.load(data.documents)
    rows = [*_quality(data, embedder, index), *_past(data, embedder), *_fits(data, embedder, index)]
    for what, title in (("all", "recall, all requests"), ("unseen", "recall, the half no weight was chosen on")):
        show(console, rows, what, title, *FIELDS, ratio="to the words alone, r@5")
    show(console, rows, "past", "recall, with requests of the past known", *FIELDS, ratio="to none, r@5")
    show(console, rows, "fits", "at the least fit that is offered: shares", "refused", "offered", ratio="to the first")
    show(console, rows, "names", "requests with an exact name that is not first", "not first", ratio="")
    rows += _latency(data, embedder, rounds, console)
    for size in SIZES:
        fields = ("p50_ms", "p95_ms", "p99_ms", "cpu_p95_ms", "ratio")
        show(console, rows, f"{size} skills", f"{size} skills, milliseconds", *fields, ratio="to the words alone")
    return rows


def _quality(data: Data, embedder: Embedder, index: HybridIndex) -> list[dict[str, Any]]:
    ways = _ways(data.documents, embedder, index)
    names = {each.id: each.called for each in data.documents}
    rows: list[dict[str, Any]] = []
    found = {way: [rank(one.text) for one in data.requests] for way, rank in ways.items()}
    for what, kept in (("all", (True, False)), ("unseen", (False,))):
        base = 0.0
        for way, rankings in found.items():
            pairs = [(one, ids) for one, ids in zip(data.requests, rankings, strict=True) if one.tuned_on in kept]
            row = _recall(pairs, names)
            base = base or row["r@5"]
            rows.append({"what": what, "way": way, "count": len(pairs), **row, "ratio": row["r@5"] / base})
    wrong = sum(
        names[index.search(f"{phrase} {name}", 1)[0].id] != name
        for name in dict.fromkeys(names.values())
        for phrase in ("use", "please send an email about the weather with the skill")
    )
    count = 2 * len(set(names.values()))
    rows.append({"what": "names", "way": "ours", "count": count, "not first": wrong, "ratio": None})
    return rows


def _ways(documents: Sequence[Document], embedder: Embedder, index: HybridIndex) -> dict[str, Ranking]:
    words, vectors = Bm25(), MemoryVectors(embedder.dimensions)
    for each in documents:
        words.add(each.id, each.fields)
        vectors.upsert([each.id], embedder.embed([each.embedded[0]]))

    def by_words(text: str) -> list[str]:
        return [id_ for id_, _ in words.search(text, DEEPEST)]

    def by_meaning(text: str) -> list[str]:
        return [id_ for id_, _ in vectors.query(embedder.embed([text])[0], DEEPEST)]

    def by_rank(text: str) -> list[str]:
        scores: dict[str, float] = {}
        for ranking in (by_words(text), by_meaning(text)):
            for place, id_ in enumerate(ranking, 1):
                scores[id_] = scores.get(id_, 0.0) + 1 / (RRF + place)
        return sorted(scores, key=lambda id_: (-scores[id_], id_))

    def ours(text: str) -> list[str]:
        return [one.id for one in index.search(text, DEEPEST)]

    return {"words (BM25F)": by_words, "meaning (WordLlama)": by_meaning, "RRF(60) of both": by_rank, "ours": ours}


def _past(data: Data, embedder: Embedder) -> list[dict[str, Any]]:
    """Each third request of a tool is asked; of the others, none, some or ten are known to it."""
    of: dict[str, list[str]] = {each.id: [] for each in data.documents}
    asked: list[Request] = []
    for number, one in enumerate(sorted(data.requests, key=lambda one: (min(one.relevant), one.text))):
        if number % 3 == 0:
            asked.append(one)
        else:
            for id_ in one.relevant:
                of[id_].append(one.text[:500])
    names = {each.id: each.called for each in data.documents}
    rows: list[dict[str, Any]] = []
    for most in (0, 3, 10):
        index = HybridIndex(MemoryVectors(embedder.dimensions), embedder)
        index.load([_with(each, of[each.id][:most]) for each in data.documents])
        row = _recall([(one, [found.id for found in index.search(one.text, DEEPEST)]) for one in asked], names)
        base = rows[0]["r@5"] if rows else row["r@5"]
        way = f"at most {most} of a tool"
        rows.append({"what": "past", "way": way, "count": len(asked), **row, "ratio": row["r@5"] / base})
    return rows


def _with(document: Document, examples: Sequence[str]) -> Document:
    return Document(document.id, document.text, tuple(examples), document.details, document.choices, document.name)


def _fits(data: Data, embedder: Embedder, index: HybridIndex) -> list[dict[str, Any]]:
    """Of the half no weight was chosen on: how often the best that there is for a request is refused, and how often
    something is offered though what answers it is not there."""
    names = {each.id: each.called for each in data.documents}
    unseen = [one for one in data.requests if not one.tuned_on]
    hundred = []
    for seed in range(10):
        small = HybridIndex(MemoryVectors(embedder.dimensions), embedder)
        sample = random.Random(seed).sample(data.documents, 100)
        small.load(sample)
        hundred.append((small, {each.called for each in sample}))
    there = [index.search(one.text, 1)[0].fit for one in unseen]
    missing, others = [], []
    for number, one in enumerate(unseen):
        answers = {names[id_] for id_ in one.relevant}
        missing.append(max(each.fit for each in index.search(one.text, DEEPEST) if names[each.id] not in answers))
        small, known = hundred[number % len(hundred)]
        if not known & answers:
            others.append(max((each.fit for each in small.search(one.text, 1)), default=0.0))
    chat = [max((each.fit for each in index.search(text, 1)), default=0.0) for text in CHAT]
    rows: list[dict[str, Any]] = []
    for least in (SkillSettings().fits, 0.2, 0.3):
        refused = sum(fit < least for fit in there) / len(there)
        for way, fits in (("answers taken out", missing), ("100 others", others), ("small talk", chat)):
            offered = sum(fit >= least for fit in fits) / len(fits)
            row = {
                "what": "fits",
                "way": f"{least:g}: {way}",
                "count": len(fits),
                "refused": refused,
                "offered": offered,
            }
            rows.append({**row, "ratio": offered / rows[0]["offered"] if rows else 1.0})
    return rows


def _recall(found: Sequence[tuple[Request, list[str]]], names: Mapping[str, str]) -> dict[str, float]:
    """The share of the answers among the first, in the mean over the requests."""
    sums = dict.fromkeys(FIELDS, 0.0)
    for request, ids in found:
        answers = {names[id_] for id_ in request.relevant}
        once = list(dict.fromkeys(names[id_] for id_ in ids))
        for cut in CUTS:
            sums[f"r@{cut}"] += len(request.relevant.intersection(ids[:cut])) / len(request.relevant)
            sums[f"one name r@{cut}"] += len(answers.intersection(once[:cut])) / len(answers)
    return {field: total / max(len(found), 1) for field, total in sums.items()}


def _latency(data: Data, embedder: Embedder, rounds: int, console: Console) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    texts = [one.text for one in random.Random(7).sample(data.requests, min(rounds, len(data.requests)))]
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            records = Records.open(f"sqlite:///{folder}/records.db")
            store = VectorStore(Path(folder) / "chroma", records)
            collection = store.collection("skills_active", embedder.dimensions)
            index = HybridIndex(collection, embedder)
            documents = multiplied(data.documents, size)
            index.load(documents, partial(_told, console))
            stored = StoredIndex(Path(folder) / "index.db", embedder)
            for start in range(0, len(documents), _AT_ONCE):
                stored.apply({each.id: each for each in documents[start : start + _AT_ONCE]}, {})
            words = Bm25()
            for each in documents:
                words.add(each.id, each.fields)
            ways: dict[str, Callable[[str], object]] = {
                "words": lambda text, words=words: words.search(text, RETRIEVED),  # type: ignore[misc]
                "meaning": lambda text, c=collection: c.query(embedder.embed([text])[0], RETRIEVED),  # type: ignore[misc]
                "ours, in memory": lambda text, index=index: index.search(text, RETRIEVED),  # type: ignore[misc]
                "ours": lambda text, stored=stored: stored.search(text, RETRIEVED),  # type: ignore[misc]
            }
            times: dict[str, list[float]] = {way: [] for way in ways}
            cpu: dict[str, list[float]] = {way: [] for way in ways}
            for run in ways.values():
                run(texts[0])
            for text in track(texts, f"{size} skills", console=console, transient=True):
                for way, run in ways.items():
                    began, used = time.perf_counter(), time.process_time()
                    run(text)
                    cpu[way].append((time.process_time() - used) * 1e3)
                    times[way].append((time.perf_counter() - began) * 1e3)
            stored.close()
            store.close()
            records.close()
        series = [Series(str(size), way, tuple(values)) for way, values in times.items()]
        for one in series:
            row = {**one.as_dict(), "what": f"{size} skills", "ratio": one.p50 / series[0].p50}
            rows.append({**row, "cpu_p95_ms": Series(str(size), one.way, tuple(cpu[one.way])).p95})
    return rows


def _told(console: Console, done: int, of: int) -> None:
    if done % 10_000 == 0:
        console.log(f"{done:,} of {of:,} vectors")
