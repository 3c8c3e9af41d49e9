"""Measures the latency and memory of each method, alone and combined, including the embedding of the query.

Processor time is reported too, because it depends less on the load of the machine. Memory is measured in one process
per method: how much more of it is resident after some searches than before the method was opened.
"""

import ctypes
import gc
import random
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from bench.retrieval.public_data import Data, multiplied
from bench.retrieval.speed_ways import SENTENCES, WAYS, opened
from bench.searches import timed_searches
from bench.table import show
from engine.retrieval.document import Document
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import Embedder, WordLlamaEmbedder
from engine.stores.sentence_embedder import SentenceEmbedder

SIZES = (100, 5_000, 50_000)
_AT_ONCE = 2_000  # documents written to an index at a time
_MEMORY_QUERIES = 20
_FIELDS = ("p50_ms", "p95_ms", "p99_ms", "cpu_p95_ms", "MiB")
_PAGE_MIB = 4096 / 2**20
Search = Callable[[str], object]


def bench(
    data: Data,
    embedder: Embedder,
    sentences: Embedder | None,
    rounds: int,
    console: Console,
    *,
    sizes: Sequence[int] = SIZES,
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows. Memory is measured at the last size.

    Args:
        data: The documents, which are multiplied, and the requests.
        embedder: Makes the vectors of documents and requests.
        sentences: The sentence encoder, if it is installed.
        rounds: The number of requests timed at each size.
        console: Where to print.
        sizes: The numbers of documents.
    """
    texts = [one.text for one in random.Random(7).sample(data.requests, min(rounds, len(data.requests)))]
    rows: list[dict[str, Any]] = []

    def encoder() -> Embedder:
        if sentences is None:
            raise ValueError("the sentence encoder is not installed")
        return sentences

    for size in sizes:
        documents = multiplied(data.documents, size)
        with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as folder:
            path = Path(folder) / "index.db"
            _write(path, documents, embedder, console)
            memory = _memory(documents, path, sentences is not None, texts) if size == sizes[-1] else {}
            ways: dict[str, Search] = {
                way: opened(way, documents, path, lambda: embedder, encoder)
                for way in WAYS
                if sentences is not None or way not in SENTENCES
            }
            # As in the stored index: idle BLAS threads would spin into the times of the next method.
            with threadpool_limits(limits=1, user_api="blas"):
                timed = timed_searches(ways, texts, _what(size), console)
            rows += [{**row, "MiB": memory.get(row["way"])} for row in timed]
            rows += [_not_installed(size, way) for way in WAYS if way not in ways]
    for size in sizes:
        show(console, rows, _what(size), f"{_what(size)}, milliseconds", *_FIELDS, ratio="ratio to words")
    return rows


def _what(size: int) -> str:
    return f"{size} tools"


def _write(path: Path, documents: Sequence[Document], embedder: Embedder, console: Console) -> None:
    index = StoredIndex(path, embedder)
    for start in range(0, len(documents), _AT_ONCE):
        index.apply({each.id: each for each in documents[start : start + _AT_ONCE]}, {})
        if start and start % (5 * _AT_ONCE) == 0:
            console.log(f"{start:,} of {len(documents):,} tools indexed")
    index.close()


def _not_installed(size: int, way: str) -> dict[str, Any]:
    empty = dict.fromkeys((*_FIELDS, "ratio"))
    return {"what": _what(size), "way": f"{way}: the encoder is not installed", "count": 0, **empty}


def _memory(documents: Sequence[Document], path: Path, encoder: bool, texts: Sequence[str]) -> dict[str, int]:
    """Return how many MiB each method takes in addition to the documents."""
    some = texts[:_MEMORY_QUERIES]
    return {way: round(_added(documents, path, way, some)) for way in WAYS if encoder or way not in SENTENCES}


def _added(documents: Sequence[Document], path: Path, way: str, texts: Sequence[str]) -> float:
    """Return how many MiB a method adds to the resident memory of a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_use, documents, path, way, texts).result()


def _use(documents: Sequence[Document], path: Path, way: str, texts: Sequence[str]) -> float:
    before = _resident_mib()
    search = opened(way, documents, path, WordLlamaEmbedder, SentenceEmbedder)
    for text in texts:
        search(text)
    return _resident_mib() - before


def _resident_mib() -> float:
    """Return the resident memory of this process, after giving back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MIB
