"""`StoredIndex`: documents found as by `HybridIndex`, from one file that every process on a home shares.

The file is SQLite's, so a change is whole or not there, and everybody sees it at once. Postings and vectors are kept in
blobs that numpy reads as they are: a search reads the postings of its terms and the words of its candidates, and
compares the request with every vector by its first numbers, and with the nearest of these whole. The file holds
nothing that cannot be made again: one that is damaged, or that another embedder made, is replaced by an empty one.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from engine.retrieval.document import Document
from engine.retrieval.fusion import DENSE_WEIGHT
from engine.retrieval.index import CANDIDATES, MAX_VECTORS_PER_CANDIDATE, PER_RESULT
from engine.retrieval.index_file import FREE, VECTOR_CHUNK, IndexFile
from engine.retrieval.index_writer import IndexWriter
from engine.retrieval.naming import folded, names_in
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.ranking import Figures, candidates, ranking, rarest_of
from engine.retrieval.rarity import rarity
from engine.retrieval.terms import Terms, weight_of
from engine.retrieval.word_cache import WordCache
from engine.retrieval.word_match import TINY, Held, Matched, alikeness, compare
from engine.stores.embedder import Embedder, Vectors

# The nearest vectors are looked for by their first numbers, then compared whole. The embedder was trained so that these
# alone are an embedding (Matryoshka representation learning, arXiv:2205.13147); reading a quarter takes a quarter.
_FIRST = 64
_LOOKED_AT = 2_000  # vectors compared whole, at least; an index of fewer is compared whole at once

_NO_COSINE = np.float32(-2.0)  # below any

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A word of a request: its weight, and the number of its term where a document has that."""

    word: str
    weight: float
    number: int | None


class StoredIndex:
    """Threads may share it; `close` it once. Nothing is opened before it is first used."""

    def __init__(self, path: Path, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """dense_weight: share of the meaning in the choice of candidates, from 0 (words only) to 1."""
        self._file = IndexFile(path, f"{embedder.name}:{embedder.dimensions}")
        self._embedder = embedder
        self._dense_weight = dense_weight
        self._terms = Terms()
        self._writer = IndexWriter(embedder, self._terms)
        self._lock = threading.RLock()
        self._blas = ThreadpoolController()
        self._epoch = -1
        self._vectors = np.zeros((0, embedder.dimensions), dtype=np.float32)
        self._owners = np.zeros(0, dtype=np.uint32)
        self._first = np.zeros((0, min(_FIRST, embedder.dimensions)), dtype=np.float32)  # of each vector, as unit ones
        self._words = WordCache(embedder.dimensions)
        self._holders: dict[int, int] = {}  # by number of the term: how many documents have it, at this epoch

    def __len__(self) -> int:
        with self._reading() as connection:
            return _count(connection)

    def note(self, key: str) -> str:
        """What `apply` noted under this key last; "" for nothing."""
        with self._reading() as connection:
            return _meta(connection, key)

    def apply(self, changes: Mapping[str, Document | None], notes: Mapping[str, str]) -> bool:
        """Put documents in, in place of those of the same ids, or take them out (None); all of them or none.

        notes: kept with them. False, and nothing done, when another process is writing.
        """
        with self._lock:
            return self._file.write(lambda connection: self._writer.write(connection, changes, notes))

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._file.replace()
            self._forget()

    def close(self) -> None:
        """Let go of the file. A later use opens it again."""
        with self._lock:
            self._file.close()
            self._forget()

    def search(self, query: str, k: int, weigh: Weigh | None = None) -> list[Ranked]:
        """The k best documents, best first.

        A query that contains a document's exact name (in any case, `-` for `_`) ranks it first. weigh: asked for the
        factors of the candidates' scores, such as success rates.
        """
        # The products here take less time than threads of BLAS take to find each other, above all on a busy machine.
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            documents = _count(connection)
            count = max(CANDIDATES, PER_RESULT * k)
            words = self._terms.with_words(query)
            numbers = _terms_of(connection, list(words))
            counted = {
                term: float(rarity(documents, numbers[term][1] if term in numbers else 0)) * weight_of(term)
                for term in words
            }
            rarest = rarest_of(counted)
            weights = {numbers[term][0]: counted[term] for term in rarest if term in numbers}
            sparse = self._scored(connection, weights, count)
            dense = self._nearest(connection, query, count, documents)
            slots = _ids_of(connection, {*sparse, *dense})
            by_id = {id_: slot for slot, id_ in slots.items()}
            named, more = _named_in(connection, query)
            by_id |= more
            sparse_ids = {slots[slot]: score for slot, score in sparse.items() if slot in slots}
            dense_ids = {slots[slot]: score for slot, score in dense.items() if slot in slots}
            ids = candidates(sparse_ids, dense_ids, named, count, self._dense_weight)
            asked = [_Asked(words[term], counted[term], numbers.get(term, (None,))[0]) for term in rarest]
            matched = self._match(connection, asked, [by_id[id_] for id_ in ids], documents)
        return ranking(Figures(ids, sparse_ids, dense_ids, named, matched), k, weigh)

    def vectors_of(self, ids: Iterable[str]) -> tuple[list[str], Vectors]:
        """The names and vectors of these documents, for a store of vectors; a document has one or more."""
        names: list[str] = []
        rows: list[int] = []
        with self._reading() as connection:
            self._catch_up(connection)
            for document_id in ids:
                query = "SELECT vectors, hashes FROM documents WHERE id = ?"
                found = connection.execute(query, (document_id,)).fetchone()
                if found is not None:
                    rows += np.frombuffer(found[0], dtype=np.uint32).tolist()
                    names += [f"{document_id}#{each}" for each in found[1].split()]
            return names, self._vectors[rows]

    def vector_names(self) -> dict[str, str]:
        """The names of all vectors, each with the id of its document."""
        with self._reading() as connection:
            rows = connection.execute("SELECT id, hashes FROM documents")
            return {f"{id_}#{each}": id_ for id_, hashes in rows for each in hashes.split()}

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._file.reading() as (connection, fresh):
            if fresh:
                self._forget()
            yield connection

    def _forget(self) -> None:
        """What is kept in memory of the file."""
        self._epoch = -1
        self._vectors, self._owners, self._first = self._vectors[:0], self._owners[:0], self._first[:0]
        self._words.clear()
        self._holders.clear()

    @staticmethod
    def _scored(connection: sqlite3.Connection, weights: Mapping[int, float], count: int) -> dict[int, float]:
        """BM25 scores of the best documents, by slot."""
        slots: list[Ints] = []
        scores: list[Floats] = []
        for term, weight in weights.items():
            for (blob,) in connection.execute("SELECT data FROM postings WHERE term = ?", (term,)):
                half = len(blob) // 2
                slots.append(np.frombuffer(blob, dtype=np.uint32, count=half // 4))
                scores.append(np.frombuffer(blob, dtype=np.float32, offset=half) * np.float32(weight))
        if not slots:
            return {}
        every = np.concatenate(slots)
        total = np.bincount(every, weights=np.concatenate(scores)).astype(np.float32)
        found = np.flatnonzero(total)
        if len(found) > count:
            kth = np.partition(total[found], len(found) - count)[len(found) - count]
            found = found[total[found] >= kth]  # with all that tie with the last one, so that the order is stable
        return {int(slot): float(total[slot]) for slot in found}

    def _nearest(self, connection: sqlite3.Connection, query: str, count: int, documents: int) -> dict[int, float]:
        """Cosine similarity by slot, of the document's nearest vector."""
        self._catch_up(connection)
        vector = self._embedder.embed([query])[0]
        used = int((self._owners != FREE).sum())
        if not documents or not used or not vector.any():
            return {}
        wanted = min(used, count * min(MAX_VECTORS_PER_CANDIDATE, -(-used // documents)))
        rows = self._looked_at(vector, wanted)
        similarity = self._vectors[rows] @ vector
        owners = self._owners[rows]
        similarity[owners == FREE] = _NO_COSINE
        kth = np.partition(similarity, len(similarity) - wanted)[len(similarity) - wanted]
        near = np.flatnonzero(similarity >= kth)
        best: dict[int, float] = {}
        for at in near[np.argsort(-similarity[near], kind="stable")].tolist():
            if len(best) == count:
                break
            best.setdefault(int(owners[at]), float(similarity[at]))
        return best

    def _looked_at(self, vector: Vectors, wanted: int) -> Any:
        """The rows of vectors to compare whole, in order: those whose first numbers are nearest, or all of them."""
        looked_at = max(_LOOKED_AT, 4 * wanted)
        if len(self._owners) <= looked_at:
            return slice(None)
        alike = self._first @ vector[: self._first.shape[1]]
        alike[self._owners == FREE] = _NO_COSINE
        return np.sort(np.argpartition(alike, len(alike) - looked_at)[len(alike) - looked_at :])

    def _match(
        self,
        connection: sqlite3.Connection,
        asked: Sequence["_Asked"],
        slots: Sequence[int],
        documents: int,
    ) -> Matched:
        """How the words of a request match each of these documents."""
        query = "SELECT slot, head, words FROM documents WHERE slot"
        rows = {row[0]: row for row in _chunked(connection, query, slots)}
        held = Held.of([(np.frombuffer(rows[slot][2], dtype=np.uint32), rows[slot][1]) for slot in slots])
        terms, vectors = self._words_of(connection, held.once.tolist())
        missing = set(terms.tolist()) - self._holders.keys()
        self._holders.update(_chunked(connection, "SELECT number, holders FROM terms WHERE number", missing))
        rare: Floats = rarity(documents, np.array([self._holders[term] for term in terms.tolist()], dtype=np.float32))
        alike = alikeness(self._embedder.embed([one.word for one in asked]), vectors)
        for row, one in enumerate(asked):
            if one.number is not None:
                alike[row, terms == one.number] = 1.0
        return compare(alike, np.array([one.weight for one in asked], dtype=np.float32), rare, held)

    def _words_of(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[Ints, Vectors]:
        """The numbers of the terms of these words, and the words' vectors."""
        missing = self._words.missing(numbers)
        self._words.add(_chunked(connection, "SELECT number, term, vector FROM words WHERE number", missing))
        return self._words.of(numbers)

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the vectors that were written since the last time."""
        epoch = int(_meta(connection, "epoch") or 0)
        if epoch == self._epoch:
            return
        last = connection.execute("SELECT coalesce(max(chunk), -1) FROM vectors").fetchone()[0]
        rows = (int(last) + 1) * VECTOR_CHUNK
        if rows > len(self._owners):
            vectors = np.zeros((rows, self._embedder.dimensions), dtype=np.float32)
            vectors[: len(self._vectors)] = self._vectors
            owners = np.full(rows, FREE, dtype=np.uint32)
            owners[: len(self._owners)] = self._owners
            first = np.zeros((rows, self._first.shape[1]), dtype=np.float32)
            first[: len(self._first)] = self._first
            self._vectors, self._owners, self._first = vectors, owners, first
        changed = connection.execute("SELECT chunk, owners, data FROM vectors WHERE epoch > ?", (self._epoch,))
        for chunk, owners_blob, data in changed:
            at = slice(chunk * VECTOR_CHUNK, (chunk + 1) * VECTOR_CHUNK)
            self._owners[at] = np.frombuffer(owners_blob, dtype=np.uint32)
            self._vectors[at] = np.frombuffer(data, dtype=np.float32).reshape(VECTOR_CHUNK, -1)
            first = self._vectors[at, : self._first.shape[1]]
            self._first[at] = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), TINY)
        self._holders.clear()
        self._epoch = epoch


def _count(connection: sqlite3.Connection) -> int:
    return int(_meta(connection, "documents") or 0)


def _meta(connection: sqlite3.Connection, key: str) -> str:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return "" if found is None else str(found[0])


def _terms_of(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The number of each term that is known, and how many documents have it."""
    found = _chunked(connection, "SELECT term, number, holders FROM terms WHERE term", terms)
    return {term: (number, holders) for term, number, holders in found}


def _ids_of(connection: sqlite3.Connection, slots: Iterable[int]) -> dict[int, str]:
    return dict(_chunked(connection, "SELECT slot, id FROM documents WHERE slot", slots))


def _named_in(connection: sqlite3.Connection, query: str) -> tuple[dict[str, int], dict[str, int]]:
    """The documents whose names the query contains: 2 for one that is spelled exactly so, else 1; and their slots."""
    spelled = names_in(query)
    rows = list(
        _chunked(connection, "SELECT id, called, slot FROM documents WHERE folded", {folded(word) for word in spelled})
    )
    return {id_: 2 if called in spelled else 1 for id_, called, _ in rows}, {id_: slot for id_, _, slot in rows}


def _chunked(connection: sqlite3.Connection, query: str, values: Iterable[Any], at_once: int = 500) -> Iterator[Any]:
    """The rows of a query that ends with a column, for those values of it."""
    every = list(values)
    for start in range(0, len(every), at_once):
        some = every[start : start + at_once]
        yield from connection.execute(f"{query} IN ({','.join('?' * len(some))})", some)
