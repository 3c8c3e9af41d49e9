"""Latency of searches in memories of up to half a million entries, with SQLite FTS5 in the same run.

The entries are halves of two random turns each, in conversations of 10 to 30 turns.
"""

import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.memory.locomo import LocomoConversation
from bench.memory.methods import ENCODED, OURS, encode
from bench.searches import timed_searches
from bench.table import show
from engine.retrieval.passage import Passage, PassageFilter
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_index import PassageIndex
from engine.stores.embedder import Embedder

SIZES = (1_000, 50_000, 500_000)
_AT_ONCE = 4_000  # passages written at a time
_RESULTS = 10
_SPACES = 10
_SPACE = PassageFilter(spaces=["s0"])
_DAYS = 1_000
_MIB = 1 << 20
_PAGE = 4096


def bench(
    conversations: Sequence[LocomoConversation],
    embedder: Embedder,
    sizes: Sequence[int],
    rounds: int,
    console: Console,
    *,
    encoder: PassageEncoder | None = None,
) -> list[dict[str, Any]]:
    """Measure, print a table for each size, and return the rows. rounds: the number of questions timed at each size."""
    questions = [one.text for each in conversations for one in each.questions]
    asked = random.Random(7).sample(questions, min(rounds, len(questions)))
    rows: list[dict[str, Any]] = []
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(PassageIndex(Path(folder) / "passages.db", embedder)) as index,
            closing(PassageIndex(Path(folder) / "passages.db", embedder, encoder)) as encoded,
            closing(sqlite3.connect(Path(folder) / "fts5.db")) as fts5,
        ):
            seconds = _fill(synthetic(conversations, size), size, index, fts5, console)
            extra = {OURS: _first_search(index, asked[0], size / max(seconds, 1e-9))}
            ways: dict[str, Callable[[str], object]] = {
                "SQLite FTS5": lambda text, fts5=fts5: _fts5(fts5, text),  # type: ignore[misc]
                OURS: lambda text, index=index: index.search(text, _RESULTS),  # type: ignore[misc]
                "ours, in a tenth": lambda text, index=index: index.search(text, _RESULTS, _SPACE),  # type: ignore[misc]
            }
            if encoder is not None:
                passages = {each.id: each for each in synthetic(conversations, size)}
                seconds = _encode(encoded, encoder, passages, console)
                extra[ENCODED] = _first_search(encoded, asked[0], size / max(seconds, 1e-9))
                ways[ENCODED] = lambda text, index=encoded: index.search(text, _RESULTS)  # type: ignore[misc]
            timed = timed_searches(ways, asked, f"{size} entries", console)
            rows += [{**row, **extra.get(row["way"], dict.fromkeys(extra[OURS]))} for row in timed]
        fields = ("p50_ms", "p95_ms", "p99_ms", "cpu_p95_ms", "first_ms", "MiB")
        show(console, rows, f"{size} entries", f"{size:,} entries, milliseconds", *fields, ratio="to FTS5")
    return rows


def synthetic(conversations: Sequence[LocomoConversation], size: int) -> Iterator[Passage]:
    """Yield passages that are made of the turns, the same ones every time."""
    chance = random.Random(11)
    turns = [each for conversation in conversations for each in conversation.passages.values()]
    speakers = sorted({each.title for each in turns})
    group, position, length, time_ = -1, 0, 0, 0.0
    for number in range(size):
        if position == length:
            group, position, length = group + 1, 0, chance.randint(10, 30)
            pair, time_ = chance.sample(speakers, 2), turns[0].time + 86_400.0 * chance.randrange(_DAYS)
        first, second = (chance.choice(turns).text.split() for _ in range(2))
        text = " ".join(first[: len(first) // 2] + second[len(second) // 2 :])
        place = {"group": f"g{group}", "position": position, "kind": "turn", "space": f"s{group % _SPACES}"}
        yield Passage(f"e{number}", text, pair[position % 2], time=time_, **place)  # type: ignore[arg-type]
        position += 1


def _fill(
    passages: Iterator[Passage], size: int, index: PassageIndex, fts5: sqlite3.Connection, console: Console
) -> float:
    """Write the passages to both, and return the seconds that the index took."""
    fts5.execute("CREATE VIRTUAL TABLE passages USING fts5 (title, text, tokenize = 'porter')")
    taken = 0.0
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{size:,} entries", total=size)
        batch: dict[str, Passage] = {}
        for number, each in enumerate(passages, 1):
            batch[each.id] = each
            if len(batch) == _AT_ONCE or number == size:
                began = time.perf_counter()
                index.apply(batch, {})
                taken += time.perf_counter() - began
                fts5.executemany(
                    "INSERT INTO passages VALUES (?, ?)", [(one.title, one.text) for one in batch.values()]
                )
                progress.advance(task, len(batch))
                batch = {}
    fts5.commit()
    return taken


def _encode(index: PassageIndex, encoder: PassageEncoder, passages: Mapping[str, Passage], console: Console) -> float:
    """Add the vectors of the encoder, and return the seconds that this took."""
    began = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"encoding {len(passages):,} entries", total=len(passages))
        encode(index, encoder, passages, lambda count: progress.advance(task, count))
    return time.perf_counter() - began


def _first_search(index: PassageIndex, text: str, filled_per_s: float) -> dict[str, float]:
    """Return the time of the first search, the memory that it takes, and the given speed of writing."""
    before, began = _resident(), time.perf_counter()
    index.search(text, _RESULTS)
    first_ms = (time.perf_counter() - began) * 1e3
    return {"first_ms": first_ms, "MiB": (_resident() - before) / _MIB, "filled_per_s": filled_per_s}


def _fts5(connection: sqlite3.Connection, text: str) -> list[Any]:
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
    query = "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY bm25(passages) LIMIT ?"
    return connection.execute(query, (words, _RESULTS)).fetchall()


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
