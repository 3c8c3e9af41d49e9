"""`Bm25`: an inverted index that grows and shrinks a document at a time.

Scoring is BM25F with Lucene's never-negative idf (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond", 2009): the occurrences of a term are weighted by the field they are in before they saturate, so that a word
of the name says more than one of a parameter. A field's length is held against what is usual, not against the average
of the moment: then what a term adds to a document's score, its rarity apart, is known when the document comes and never
changes. It is kept, so a query is one addition per term: 50,000 documents cost some 50 microseconds a term.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.retrieval.field import Field
from engine.retrieval.rarity import rarity
from engine.retrieval.terms import Terms, weight_of

K1 = 1.2  # how soon repeating a term stops helping: Lucene's default

Ints = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


def impacts(fields: Sequence[Field], splitter: Terms) -> dict[str, float]:
    """What each term of a document adds to its score before the term's rarity counts."""
    weighted: dict[str, float] = {}
    for each in fields:
        terms = splitter.of(each.text)
        share = each.weight / (1 - each.b + each.b * len(terms) / each.usual)
        for term in terms:
            weighted[term] = weighted.get(term, 0.0) + share
    return {term: (K1 + 1) * count / (K1 + count) for term, count in weighted.items()}


@dataclass(slots=True)
class _Postings:
    """Which slots hold a term, in order, and what it adds to each before its rarity counts: two arrays in step."""

    slots: "array[int]" = field(default_factory=lambda: array("I"))
    impacts: "array[float]" = field(default_factory=lambda: array("f"))

    def put(self, slot: int, impact: float) -> None:
        at = bisect_left(self.slots, slot)
        self.slots.insert(at, slot)
        self.impacts.insert(at, impact)

    def drop(self, slot: int) -> None:
        at = bisect_left(self.slots, slot)
        del self.slots[at], self.impacts[at]


class Bm25:
    """Documents by id. Not for several threads at once; `HybridIndex` sees to that."""

    def __init__(self, terms: Terms | None = None) -> None:
        self._terms = terms or Terms()
        self._postings: dict[str, _Postings] = {}
        self._slot_of: dict[str, int] = {}
        self._id_at: list[str | None] = []
        self._terms_at: list[tuple[str, ...]] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._slot_of

    def add(self, document_id: str, fields: Sequence[Field]) -> None:
        """Put a document in, in place of one of the same id."""
        self.remove(document_id)
        found = impacts(fields, self._terms)
        slot = self._take_slot()
        self._slot_of[document_id] = slot
        self._id_at[slot] = document_id
        self._terms_at[slot] = tuple(found)
        for term, impact in found.items():
            self._postings.setdefault(term, _Postings()).put(slot, impact)

    def remove(self, document_id: str) -> None:
        """Take a document out; one that is not there is fine."""
        slot = self._slot_of.pop(document_id, None)
        if slot is None:
            return
        for term in self._terms_at[slot]:
            postings = self._postings[term]
            postings.drop(slot)
            if not postings.slots:
                del self._postings[term]
        self._id_at[slot], self._terms_at[slot] = None, ()
        self._free.append(slot)

    def weights(self, terms: Sequence[str]) -> dict[str, float]:
        """What each term of a request counts: its rarity, less for numbers. One that no document has is the rarest."""
        return {
            term: float(rarity(len(self), len(p.slots) if (p := self._postings.get(term)) else 0)) * weight_of(term)
            for term in terms
        }

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """The k best as (id, score above 0), best first; equal scores by id."""
        return self.scored(self.weights(self._terms.of(query)), k)

    def scored(self, weights: Mapping[str, float], k: int) -> list[tuple[str, float]]:
        """As `search`, for terms with their `weights`."""
        scores = np.zeros(len(self._id_at), dtype=np.float32)
        for term, weight in weights.items():
            postings = self._postings.get(term)
            if postings is not None:
                slots: Ints = np.frombuffer(postings.slots, dtype=np.uint32)
                impacts: Floats = np.frombuffer(postings.impacts, dtype=np.float32)
                scores[slots] += np.float32(weight) * impacts
        return self._best(scores, k)

    def _best(self, scores: Floats, k: int) -> list[tuple[str, float]]:
        found = np.flatnonzero(scores)
        if len(found) > k:
            kth = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= kth]  # everything that ties with the last one, so that the order is stable
        ranked = [(id_, float(scores[slot])) for slot in found if (id_ := self._id_at[slot]) is not None]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))[:k]

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._id_at.append(None)
        self._terms_at.append(())
        return len(self._id_at) - 1
