"""`StoredMatch`: compares requests word by word with documents of a `StoredIndex`."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.bm25 import rarity
from engine.retrieval.candidate_rows import CandidateRow
from engine.retrieval.word_cache import RequestWords, WordCache
from engine.retrieval.word_match import Matched, WordLists, compare, word_similarity
from engine.stores.embedder import Embedder

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a request.

    Attributes:
        term: The term that the word is stemmed to.
        weight: The weight of the term.
        number: The id of the term, or None if no document contains the term.
    """

    term: str
    word: str
    weight: float
    number: int | None


class StoredMatch:
    """Compares requests with documents. Not thread-safe; `StoredIndex` holds a lock while it uses this object."""

    def __init__(self, embedder: Embedder) -> None:
        self._words = WordCache(embedder.dimensions)
        self._asked = RequestWords(embedder)

    def clear(self) -> None:
        """Discard everything in memory that was read from the file."""
        self._words.clear()

    def forget_holders(self) -> None:
        """Discard the cached counts of how many documents contain each term, because the index has changed."""
        self._words.forget_holders()

    def parts(
        self,
        connection: sqlite3.Connection,
        asked: Sequence[QueryWord],
        rows: Sequence[CandidateRow],
        parts: Sequence[Sequence[int]],
        documents: int,
    ) -> list[Matched]:
        """Compare each part of a request, such as a clause, with the words of each of these documents.

        Args:
            connection: Has an open transaction.
            asked: The words of the request.
            rows: The documents.
            parts: For each part, the positions of its words in `asked`.
            documents: How many documents the index has.
        """
        numbers = np.frombuffer(b"".join(row.words for row in rows), dtype=np.uint32)
        places = self._words.places(connection, numbers)
        used = np.zeros(self._words.count, dtype=bool)
        used[places] = True
        distinct = np.flatnonzero(used)
        word_lists = WordLists(
            distinct,
            (np.cumsum(used) - 1)[places],
            np.array([len(row.words) // numbers.itemsize for row in rows], dtype=np.int64),
            np.array([row.head for row in rows], dtype=np.int64),
        )
        terms = self._words.terms(distinct)
        rare: Floats = rarity(documents, self._words.holders(connection, terms))
        similarity = word_similarity(self._asked.vectors(one.word for one in asked), self._words.vectors(distinct))
        for row, one in enumerate(asked):
            if one.number is not None:
                similarity[row, terms == one.number] = 1.0
        weights = np.array([one.weight for one in asked], dtype=np.float32)
        return compare(similarity, weights, rare, word_lists, parts)
