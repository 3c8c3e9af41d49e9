"""`WordMatch`: measures how well two texts match word by word. Words with similar meanings match in part.

A mean of word vectors loses the individual words, and BM25 matches only equal words. Here, each word is compared with
the most similar word of the other text, and counts according to its rarity (late interaction, after Khattab and
Zaharia, "ColBERT", 2020, with static word vectors instead of contextual ones). This takes time, so only the candidates
of a search are compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.bm25 import rarity
from engine.retrieval.interned import Interned
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

FLOOR = 0.3  # words with a lower cosine are unrelated; random pairs of WordLlama's vectors are below 0.2
TINY = 1e-6

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Matched:
    """Measures how well each document matches a request: two shares from 0 to 1, in which rare words count more.

    The shares are comparable between queries.

    Attributes:
        covered: The share of the request's words that match the document.
        meant: The share of the words in the document's head (its name and description) that match the request.
    """

    covered: Floats
    meant: Floats


@dataclass(frozen=True, slots=True)
class WordLists:
    """The words of several documents, as ids in one list. The words of a document's name and description come first.

    Attributes:
        distinct: Each id once.
        positions: For each word of the concatenated list, its index in `distinct`.
        lengths: The number of words of each document.
        heads: The number of words in each document's name and description.
    """

    distinct: Ints
    positions: Ints
    lengths: Ints
    heads: Ints

    @classmethod
    def of(cls, documents: Sequence[tuple[Ints, int]]) -> "WordLists":
        """Concatenate the words of documents.

        Args:
            documents: For each document, the ids of its words, and how many of them are in its name and description.
        """
        lists = [numbers for numbers, _ in documents]
        distinct, positions = np.unique(np.concatenate(lists or [np.zeros(0, dtype=np.uint32)]), return_inverse=True)
        lengths = np.array([len(numbers) for numbers in lists], dtype=np.int64)
        return cls(distinct, positions, lengths, np.array([head for _, head in documents], dtype=np.int64))


def compare(
    similarity: Floats, weights: Floats, rare: Floats, words: WordLists, parts: Sequence[Sequence[int]]
) -> list[Matched]:
    """Compare each part of a request, such as a clause, with documents word by word.

    Args:
        similarity: The similarity, from 0 to 1, of each word of the request (row) to each word of `words.distinct`
            (column).
        weights: Weights of the words of the request.
        rare: The rarity of each word of `words.distinct`.
        words: The words of the documents.
        parts: For each part of the request, the rows of its words.
    """
    covered = np.zeros((len(parts), len(words.lengths)), dtype=np.float32)
    meant = np.zeros_like(covered)
    shares = np.zeros((len(parts), len(weights)), dtype=np.float32)
    of_words = np.zeros((len(parts), similarity.shape[1]), dtype=np.float32)
    for at, rows in enumerate(map(list, parts)):
        if rows:
            shares[at, rows] = weights[rows] / max(float(weights[rows].sum()), TINY)
            of_words[at] = similarity[rows].max(axis=0)
    starts = np.cumsum(words.lengths) - words.lengths
    filled = words.lengths > 0  # for an empty slice, reduceat returns the element after it
    if len(weights) and filled.any():
        columns = np.ascontiguousarray(similarity.T)[words.positions]
        covered[:, filled] = shares @ np.maximum.reduceat(columns, starts[filled], axis=0).T
    filled = words.heads > 0
    if filled.any():
        heads = words.heads[filled]
        head_starts = np.cumsum(heads) - heads
        of_head = words.positions[np.arange(int(heads.sum())) + np.repeat(starts[filled] - head_starts, heads)]
        total = np.maximum(np.add.reduceat(rare[of_head], head_starts), TINY)
        meant[:, filled] = np.add.reduceat((of_words * rare)[:, of_head], head_starts, axis=1) / total
    return [Matched(*each) for each in zip(covered, meant, strict=True)]


def word_similarity(ours: Floats, theirs: Floats) -> Floats:
    """Return the similarity of each pair of word vectors: the square of the cosine, and 0 below `FLOOR`."""
    cosine: Floats = ours @ theirs.T
    cosine *= cosine > FLOOR
    cosine *= cosine
    return cosine


@dataclass(frozen=True, slots=True)
class _Words:
    """The ids of a document's words, one for each term. The first `head` words are in its name and description."""

    numbers: Ints
    head: int


class WordMatch:
    """Compares requests with documents. Not thread-safe; `HybridIndex` holds a lock while it uses this object."""

    def __init__(self, embedder: Embedder, terms: Terms) -> None:
        self._embedder = embedder
        self._splitter = terms
        self._terms = Interned()
        self._words = Interned()
        self._vectors = np.zeros((0, embedder.dimensions), dtype=np.float32)  # by number of the word
        self._term_of = np.zeros(0, dtype=np.uint32)  # by number of the word
        self._documents: dict[str, _Words] = {}

    def add(self, document_id: str, head: str, rest: str) -> None:
        """Add a document, or replace the one with the same id."""
        self.remove(document_id)
        of_head = self._splitter.with_words(head)
        # Terms of the head come first. If a term occurs in both texts, the word of the head is used.
        ordered = of_head | self._splitter.with_words(rest) | of_head
        terms, _ = self._terms.hold(ordered)
        words, new = self._words.hold(ordered.values())
        self._make_room()
        self._term_of[words] = terms
        if new:
            numbers = [number for number, _ in new]
            self._vectors[numbers] = self._embedder.embed([text for _, text in new])
        self._documents[document_id] = _Words(words, len(of_head))

    def remove(self, document_id: str) -> None:
        """Remove a document if it is known."""
        known = self._documents.pop(document_id, None)
        if known is not None:
            self._terms.release(self._term_of[known.numbers])
            self._words.release(known.numbers)

    def match(self, words: Mapping[str, str], weights: Mapping[str, float], ids: Sequence[str]) -> Matched:
        """Compare a request with documents.

        Args:
            words: The terms of the request, each with the word that was stemmed to it.
            weights: The weights of the terms.
            ids: The ids of the documents.
        """
        documents = [self._documents[id_] for id_ in ids]
        lists = WordLists.of([(each.numbers, each.head) for each in documents])
        row_weights = np.array([weights[term] for term in words], dtype=np.float32)
        similarity = self._similarity(words, lists.distinct)
        return compare(similarity, row_weights, self._rarity(lists.distinct), lists, [range(len(words))])[0]

    def _similarity(self, words: Mapping[str, str], numbers: Ints) -> Floats:
        """Return the similarity of each word of the request and each word in `numbers`; 1 if their terms are equal."""
        known = [self._words.get(word) for word in words.values()]
        vectors = np.zeros((len(known), self._embedder.dimensions), dtype=np.float32)
        for row, number in enumerate(known):
            if number is not None:
                vectors[row] = self._vectors[number]
        unknown = [(row, word) for row, word in enumerate(words.values()) if known[row] is None]
        if unknown:
            vectors[[row for row, _ in unknown]] = self._embedder.embed([word for _, word in unknown])
        similarity = word_similarity(vectors, self._vectors[numbers])
        terms = self._term_of[numbers]
        for row, term in enumerate(words):
            term_number = self._terms.get(term)
            if term_number is not None:
                similarity[row, terms == term_number] = 1.0
        return similarity

    def _rarity(self, words: Ints) -> Floats:
        holders = self._terms.holders(self._term_of[words])
        found: Floats = rarity(len(self._documents), holders)
        return found

    def _make_room(self) -> None:
        if len(self._words) > len(self._vectors):
            more = max(1024, len(self._words) + len(self._words) // 2) - len(self._vectors)
            self._vectors = np.vstack([self._vectors, np.zeros((more, self._embedder.dimensions), dtype=np.float32)])
            self._term_of = np.concatenate([self._term_of, np.zeros(more, dtype=np.uint32)])
