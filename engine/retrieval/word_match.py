"""`WordMatch`: how well two texts match word by word, where a word may also match another of like meaning.

A mean of word vectors forgets which words it was made of, and BM25 knows only equal ones. Here each word looks for its
nearest on the other side (late interaction, after Khattab and Zaharia, "ColBERT", 2020, with static word vectors in
place of a model's), weighted by its rarity. That takes some time for each document, so it is for a few candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.interned import Interned
from engine.retrieval.rarity import rarity
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

FLOOR = 0.3  # words less alike than this have nothing to do with each other; a random pair of WordLlama's is below .2
TINY = 1e-6

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Matched:
    """One number from 0 to 1 for each document, weighted by the rarity of words, and comparable from query to query.

    covered: the share of the request that it speaks of. meant: the share of its head (its name and what it is) that the
    request speaks of.
    """

    covered: Floats
    meant: Floats


@dataclass(frozen=True, slots=True)
class Held:
    """The words of some documents by number, one document after the other, those of its head first.

    once: each number once. back: the place in `once` of each word. lengths: words of each document. heads: how many of
    them are its head's.
    """

    once: Ints
    back: Ints
    lengths: Ints
    heads: Ints

    @classmethod
    def of(cls, documents: Sequence[tuple[Ints, int]]) -> "Held":
        """documents: the numbers of the words of each, and how many of them are its head's."""
        every = [numbers for numbers, _ in documents]
        once, back = np.unique(np.concatenate(every or [np.zeros(0, dtype=np.uint32)]), return_inverse=True)
        lengths = np.array([len(numbers) for numbers in every], dtype=np.int64)
        return cls(once, back, lengths, np.array([head for _, head in documents], dtype=np.int64))


def compare(alike: Floats, asked: Floats, rare: Floats, held: Held) -> Matched:
    """How a request matches documents word by word.

    alike: from 0 to 1, of each word of the request (row) and each of `held.once` (column). asked: weights of the
    request's words. rare: rarity of each of `held.once`.
    """
    lengths = held.lengths
    covered, meant = np.zeros(len(lengths), dtype=np.float32), np.zeros(len(lengths), dtype=np.float32)
    filled = lengths > 0  # reduceat gives an empty part its neighbour's value
    if not len(asked) or not filled.any():
        return Matched(covered, meant)
    starts = np.cumsum(lengths) - lengths
    head = np.arange(len(held.back)) - np.repeat(starts, lengths) < np.repeat(held.heads, lengths)
    each_word = np.maximum.reduceat(alike[:, held.back], starts[filled], axis=1)
    covered[filled] = asked @ each_word / max(float(asked.sum()), TINY)
    weight = rare[held.back] * head
    of_head = np.add.reduceat(alike.max(axis=0)[held.back] * weight, starts[filled])
    meant[filled] = of_head / np.maximum(np.add.reduceat(weight, starts[filled]), TINY)
    return Matched(covered, meant)


def alikeness(asked: Floats, held: Floats) -> Floats:
    """How alike words are by their vectors: the square of the cosine, 0 below `FLOOR`."""
    cosine = asked @ held.T
    alike: Floats = np.where(cosine > FLOOR, cosine * cosine, np.float32(0))
    return alike


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one document by number, those of the head first, one of each term."""

    numbers: Ints
    head: int


class WordMatch:
    """Documents by id. Not for several threads at once; `HybridIndex` sees to that."""

    def __init__(self, embedder: Embedder, terms: Terms) -> None:
        self._embedder = embedder
        self._splitter = terms
        self._terms = Interned()
        self._words = Interned()
        self._vectors = np.zeros((0, embedder.dimensions), dtype=np.float32)  # by number of the word
        self._term_of = np.zeros(0, dtype=np.uint32)  # the same
        self._documents: dict[str, _Words] = {}

    def add(self, document_id: str, head: str, rest: str) -> None:
        """Put a document in, in place of one of the same id."""
        self.remove(document_id)
        of_head = self._splitter.with_words(head)
        ordered = of_head | self._splitter.with_words(rest) | of_head  # the head's come first, and its words count
        terms, _ = self._terms.hold(ordered)
        words, new = self._words.hold(ordered.values())
        self._make_room()
        self._term_of[words] = terms
        if new:
            numbers = [number for number, _ in new]
            self._vectors[numbers] = self._embedder.embed([text for _, text in new])
        self._documents[document_id] = _Words(words, len(of_head))

    def remove(self, document_id: str) -> None:
        """Take a document out; one that is not there is fine."""
        known = self._documents.pop(document_id, None)
        if known is not None:
            self._terms.release(self._term_of[known.numbers])
            self._words.release(known.numbers)

    def match(self, words: Mapping[str, str], weights: Mapping[str, float], ids: Sequence[str]) -> Matched:
        """How the request, given as terms with their words and weights, matches each of these documents."""
        documents = [self._documents[id_] for id_ in ids]
        held = Held.of([(each.numbers, each.head) for each in documents])
        asked = np.array([weights[term] for term in words], dtype=np.float32)
        return compare(self._alike(words, held.once), asked, self._rarity(held.once), held)

    def _alike(self, words: Mapping[str, str], held: Ints) -> Floats:
        """How alike each word of the request is to each held one: 1 for one term, else the square of the cosine."""
        known = [self._words.get(word) for word in words.values()]
        asked = np.zeros((len(known), self._embedder.dimensions), dtype=np.float32)
        for row, number in enumerate(known):
            if number is not None:
                asked[row] = self._vectors[number]
        strange = [(row, word) for row, word in enumerate(words.values()) if known[row] is None]
        if strange:
            asked[[row for row, _ in strange]] = self._embedder.embed([word for _, word in strange])
        alike = alikeness(asked, self._vectors[held])
        terms = self._term_of[held]
        for row, term in enumerate(words):
            term_number = self._terms.get(term)
            if term_number is not None:
                alike[row, terms == term_number] = 1.0
        return alike

    def _rarity(self, words: Ints) -> Floats:
        holders = self._terms.holders(self._term_of[words])
        found: Floats = rarity(len(self._documents), holders)
        return found

    def _make_room(self) -> None:
        if len(self._words) > len(self._vectors):
            more = max(1024, len(self._words) + len(self._words) // 2) - len(self._vectors)
            self._vectors = np.vstack([self._vectors, np.zeros((more, self._embedder.dimensions), dtype=np.float32)])
            self._term_of = np.concatenate([self._term_of, np.zeros(more, dtype=np.uint32)])
