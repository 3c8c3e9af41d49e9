"""Measures the latency and memory of each method, including the embedding of the query.

Processor time is reported too, because it depends less on the load of the machine. Memory is measured in one process
per method: how much more it has at its peak than a process that only reads the documents.
"""

import random
import resource
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from bench.retrieval.methods import methods
from bench.retrieval.public_data import Data, multiplied
from bench.searches import timed_searches
from bench.table import show
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Document
from engine.retrieval.index import HybridIndex
from engine.retrieval.ranked import Ranked
from engine.retrieval.reranking import SentenceReranker
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import Embedder, Vectors, WordLlamaEmbedder
from engine.stores.records import Records
from engine.stores.vector_cache import VectorCache
from engine.stores.vectors import VectorStore

SIZES = (100, 5_000, 50_000)
_AT_ONCE = 2_000  # documents written to an index at a time
RETRIEVED = 8
_LOADING_S = 60.0
_MEMORY_QUERIES = 20


class _RandomVectors(VectorCache):
    """Returns random vectors for documents, because computing them is not part of a search."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(Path("unused"), "random")
        self._random = np.random.default_rng(7)
        self._made: dict[str, Vectors] = {}
        self._dimensions = dimensions

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        wanted = list(texts)
        for text in wanted:
            if text not in self._made:
                vector = self._random.normal(size=self._dimensions).astype(np.float32)
                self._made[text] = vector / np.linalg.norm(vector)
        return {text: self._made[text] for text in wanted}


def bench(
    data: Data, embedder: Embedder, sentences: Embedder | None, rounds: int, console: Console
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows.

    Args:
        data: The documents, which are multiplied, and the requests.
        embedder: Makes the vectors of documents and requests.
        sentences: The sentence encoder, if it is installed.
        rounds: The number of requests timed at each size.
        console: Where to print.
    """
    rows = [*_small(data, embedder, rounds, console), *_latency(data, embedder, sentences, rounds, console)]
    title = f"{len(data.documents)} tools in memory, milliseconds and MiB"
    show(console, rows, "methods", title, "p50_ms", "p95_ms", "cpu_p95_ms", "MiB", ratio="ratio to words")
    for size in SIZES:
        fields = ("p50_ms", "p95_ms", "p99_ms", "cpu_p95_ms", "ratio")
        show(console, rows, f"{size} skills", f"{size} skills, milliseconds", *fields, ratio="ratio to words")
    return rows


def _small(data: Data, embedder: Embedder, rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure the methods in memory, as the other parts use them."""
    ways: dict[str, Callable[[str], object]] = {
        way: method(data.documents) for way, method in methods(embedder).items()
    }
    texts = _sampled(data, rounds)
    rows = timed_searches(ways, texts, "methods", console)
    used = {way: _peak(data.documents, way, texts[:_MEMORY_QUERIES]) for way in ("", *ways)}
    return [{**row, "MiB": round(used[row["way"]] - used[""])} for row in rows]


def _peak(documents: Sequence[Document], way: str, texts: Sequence[str]) -> float:
    """Return the peak memory, in MiB, of a new process that searches by the method `way`, or not at all if it is ""."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_use, documents, way, texts).result()


def _use(documents: Sequence[Document], way: str, texts: Sequence[str]) -> float:
    if way:
        search = methods(WordLlamaEmbedder())[way](documents)
        for text in texts:
            search(text)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _latency(
    data: Data, embedder: Embedder, sentences: Embedder | None, rounds: int, console: Console
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            records = Records.open(f"sqlite:///{folder}/records.db")
            store = VectorStore(Path(folder) / "chroma", records)
            collection = store.collection("skills_active", embedder.dimensions)
            index = HybridIndex(collection, embedder)
            documents = multiplied(data.documents, size)
            index.load(documents, partial(_log_progress, console))
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
            if sentences is not None:
                texts = {each.id: each.sentences for each in documents}
                ways["ours + sentences"] = _reranked(stored, sentences, texts)
            rows += timed_searches(ways, _sampled(data, rounds), f"{size} skills", console)
            stored.close()
            store.close()
            records.close()
    return rows


def _reranked(
    index: StoredIndex, sentences: Embedder, texts: Mapping[str, Sequence[str]]
) -> Callable[[str], list[Ranked]]:
    reranker = SentenceReranker(lambda: sentences, _RandomVectors(sentences.dimensions))
    reranker.rerank("", [], {}, {})
    reranker.wait(_LOADING_S)
    return lambda text: reranker.rerank(text, index.search(text, reranker.depth), texts, {})


def _sampled(data: Data, rounds: int) -> list[str]:
    return [one.text for one in random.Random(7).sample(data.requests, min(rounds, len(data.requests)))]


def _log_progress(console: Console, done: int, total: int) -> None:
    if done % 10_000 == 0:
        console.log(f"{done:,} of {total:,} vectors")
