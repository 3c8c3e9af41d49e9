"""`WordCache`: keeps recently used words of an index in arrays."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import select_in
from engine.stores.embedder import Embedder, Vectors

MOST_WORDS = 20_000  # 20 MB of vectors
MOST_REQUEST_WORDS = 4_000

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


class WordCache:
    """Caches the words of an index by number: each word's term and vector, and how many documents contain the term.

    A number always denotes the same word. Not thread-safe; `StoredIndex` holds a lock while it uses this object.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self.clear()

    def clear(self) -> None:
        """Discard everything, because the file was replaced."""
        self._at: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)  # word number -> array index, or -1
        self._count = 0
        self._terms: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._vectors: Vectors = np.zeros((0, self._dimensions), dtype=np.float32)
        self.forget_holders()

    def forget_holders(self) -> None:
        """Discard the cached counts of how many documents contain each term, because the index has changed."""
        self._holders: Floats = np.zeros(0, dtype=np.float32)  # by term number; -1 if missing

    def places(self, connection: sqlite3.Connection, words: Ints) -> Ints:
        """Return each word's place (array index), which is valid until the next call.

        Words that are not cached yet are read from the file.
        """
        highest = int(words.max()) if len(words) else -1
        self._at = _enlarged(self._at, highest + 1)
        missing = np.unique(words[self._at[words] < 0])
        if self._count + len(missing) > MOST_WORDS:
            self._at[:] = -1
            self._count, missing = 0, np.unique(words)
        self._make_room(self._count + len(missing))
        rows = select_in(connection, "SELECT number, term, vector FROM words WHERE number", missing.tolist())
        for number, term, vector in rows:
            self._at[number] = self._count
            self._terms[self._count] = term
            self._vectors[self._count] = np.frombuffer(vector, dtype=np.float32)
            self._count += 1
        return self._at[words]

    @property
    def count(self) -> int:
        """The number of words in the arrays."""
        return self._count

    def terms(self, places: Ints) -> npt.NDArray[np.int64]:
        """Return the term numbers of the words at these places in the arrays."""
        return self._terms[places]

    def vectors(self, places: Ints) -> Vectors:
        """Return the vectors of the words at these places in the arrays."""
        return self._vectors[places]

    def holders(self, connection: sqlite3.Connection, terms: Ints) -> Floats:
        """Return how many documents contain each of these terms."""
        self._holders = _enlarged(self._holders, int(terms.max()) + 1 if len(terms) else 0)
        missing = np.unique(terms[self._holders[terms] < 0]).tolist()
        for number, holders in select_in(connection, "SELECT number, holders FROM terms WHERE number", missing):
            self._holders[number] = holders
        found: Floats = self._holders[terms]
        return found

    def _make_room(self, words: int) -> None:
        if words > len(self._terms):
            room = max(1024, 2 * words)
            terms = np.zeros(room, dtype=np.int64)
            terms[: self._count] = self._terms[: self._count]
            vectors = np.zeros((room, self._dimensions), dtype=np.float32)
            vectors[: self._count] = self._vectors[: self._count]
            self._terms, self._vectors = terms, vectors


class RequestWords:
    """Caches the vectors of the words in requests, because splitting a word into tokens takes 15 microseconds."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    def vectors(self, words: Iterable[str]) -> Vectors:
        """Return the vectors of some words, shape (number of words, dimensions)."""
        wanted = list(words)
        missing = [word for word in wanted if word not in self._known]
        if len(self._known) + len(missing) > MOST_REQUEST_WORDS:
            self._known.clear()
            missing = wanted
        self._known.update(zip(missing, self._embedder.embed(missing), strict=True))
        rows = [self._known[word] for word in wanted]
        return np.stack(rows) if rows else np.zeros((0, self._embedder.dimensions), dtype=np.float32)


def _enlarged(old: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if size <= len(old):
        return old
    new = np.full(max(size, 2 * len(old)), -1, dtype=old.dtype)
    new[: len(old)] = old
    return new
