"""`PassageWords`: compares a request with passages word by word. Words with similar meanings match in part.

The comparison is the same as in `word_match`, but words are read from the file of a `PassageIndex` when needed.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import select_in
from engine.retrieval.passage_arrays import Bytes, Ints, unit
from engine.retrieval.word_match import TINY, word_similarity
from engine.stores.embedder import Embedder

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RequestWord:
    """A word of a request, with its weight and the number of its term, which is -1 if no passage contains the term."""

    word: str
    weight: float
    term: int


@dataclass(frozen=True, slots=True)
class MatchedWords:
    """Three numbers from 0 to 1 for each passage.

    Attributes:
        covered: The share of the request's words that match the passage, weighted by their rarity.
        titled: 1 if a word of the passage's title is in the request, otherwise 0.
        foreign: 1 if the passage has a title, but no word of it is in the request, otherwise 0.
    """

    covered: Floats
    titled: Floats
    foreign: Floats


class PassageWords:
    """Caches the words of an index by number. Not thread-safe; `PassageIndex` holds a lock while it uses it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._terms = np.zeros(0, dtype=np.int64)  # word number -> term number; -1 if not read yet
        self._vectors: Bytes = np.zeros((0, embedder.dimensions), dtype=np.int8)

    def forget(self) -> None:
        """Discard everything read from the file."""
        self._terms, self._vectors = self._terms[:0], self._vectors[:0]

    def match(self, connection: sqlite3.Connection, request: Sequence[RequestWord], slots: Ints) -> MatchedWords:
        """Compare a request with the passages in these slots, which must be distinct."""
        query = "SELECT slot, heads, words FROM passages WHERE slot"
        rows = {slot: (heads, words) for slot, heads, words in select_in(connection, query, slots.tolist())}
        found = [rows[slot] for slot in slots.tolist()]
        numbers = np.frombuffer(b"".join(words for _, words in found), dtype=np.uint32)
        lengths = np.array([len(words) // numbers.itemsize for _, words in found], dtype=np.int64)
        heads = np.array([heads for heads, _ in found], dtype=np.int64)
        covered, titled = np.zeros(len(slots), dtype=np.float32), np.zeros(len(slots), dtype=np.float32)
        filled = lengths > 0  # for an empty slice, reduceat returns the element after it
        if request and filled.any():
            distinct, positions = np.unique(numbers, return_inverse=True)
            similarity, asked = self._similarity(connection, request, distinct)
            weights = np.array([each.weight for each in request], dtype=np.float32)
            starts = np.cumsum(lengths) - lengths
            best = np.maximum.reduceat(similarity[:, positions], starts[filled], axis=1)
            covered[filled] = weights @ best / max(float(weights.sum()), TINY)
            in_title = np.arange(len(numbers)) - np.repeat(starts, lengths) < np.repeat(heads, lengths)
            titled[filled] = np.logical_or.reduceat(asked[positions] & in_title, starts[filled])
        return MatchedWords(covered, titled, ((heads > 0) & (titled == 0)).astype(np.float32))

    def _similarity(
        self, connection: sqlite3.Connection, request: Sequence[RequestWord], numbers: Ints
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the similarity of each request word (row) to these words, and a mask of those that the request has."""
        self._read(connection, numbers)
        vectors = self._embedder.embed([each.word for each in request])
        similarity = word_similarity(vectors, unit(self._vectors[numbers]))
        of_request, of_words = np.array([each.term for each in request]), self._terms[numbers]
        similarity[np.equal.outer(of_request, of_words)] = 1.0
        return similarity, np.isin(of_words, of_request)

    def _read(self, connection: sqlite3.Connection, numbers: Ints) -> None:
        """Read the words with these numbers, which are in ascending order, unless they have been read already."""
        if len(numbers) and numbers[-1] >= len(self._terms):
            room = max(1024, int(numbers[-1]) * 5 // 4 + 1)
            terms, vectors = np.full(room, -1, dtype=np.int64), np.zeros((room, self._vectors.shape[1]), dtype=np.int8)
            terms[: len(self._terms)], vectors[: len(self._vectors)] = self._terms, self._vectors
            self._terms, self._vectors = terms, vectors
        missing = numbers[self._terms[numbers] < 0].tolist()
        for number, term, vector in select_in(
            connection, "SELECT number, term, vector FROM words WHERE number", missing
        ):
            self._terms[number] = term
            self._vectors[number] = np.frombuffer(vector, dtype=np.int8)
