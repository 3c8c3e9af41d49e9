"""`Bm25`: an inverted index that grows and shrinks a document at a time.

Scoring is Okapi BM25 with Lucene's never-negative idf (Robertson and Zaragoza, "The Probabilistic Relevance Framework:
BM25 and Beyond", 2009; Lucene's BM25Similarity). Postings are packed arrays and a query is a handful of numpy sums, so
50,000 documents cost well under a millisecond per term.
"""

from array import array
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.retrieval.terms import Terms

K1 = 1.2  # how soon repeating a term stops helping: Lucene's default
B = 0.75  # how much a long document is held against: Lucene's default

Ints = npt.NDArray[np.uint32]


@dataclass(slots=True)
class _Postings:
    """Which slots hold a term, and how often: two arrays in step."""

    slots: "array[int]" = field(default_factory=lambda: array("I"))
    counts: "array[int]" = field(default_factory=lambda: array("I"))

    def without(self, slot: int) -> "_Postings":
        at = self.slots.index(slot)
        return _Postings(self.slots[:at] + self.slots[at + 1 :], self.counts[:at] + self.counts[at + 1 :])


class Bm25:
    """Documents by id. Not for several threads at once; `HybridIndex` sees to that."""

    def __init__(self, terms: Terms | None = None) -> None:
        self._terms = terms or Terms()
        self._postings: dict[str, _Postings] = {}
        self._slot_of: dict[str, int] = {}
        self._id_at: list[str | None] = []
        self._terms_at: list[tuple[str, ...]] = []
        self._lengths = array("f")
        self._free: list[int] = []
        self._total_length = 0.0

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._slot_of

    def add(self, document_id: str, text: str) -> None:
        """Put a document in, in place of one of the same id."""
        self.remove(document_id)
        counted = Counter(self._terms.of(text))
        slot = self._take_slot()
        length = counted.total()
        self._slot_of[document_id] = slot
        self._id_at[slot] = document_id
        self._terms_at[slot] = tuple(counted)
        self._lengths[slot] = length
        self._total_length += length
        for term, count in counted.items():
            postings = self._postings.setdefault(term, _Postings())
            postings.slots.append(slot)
            postings.counts.append(count)

    def remove(self, document_id: str) -> None:
        """Take a document out; one that is not there is fine."""
        slot = self._slot_of.pop(document_id, None)
        if slot is None:
            return
        for term in self._terms_at[slot]:
            rest = self._postings[term].without(slot)
            if rest.slots:
                self._postings[term] = rest
            else:
                del self._postings[term]
        self._total_length -= self._lengths[slot]
        self._id_at[slot], self._terms_at[slot], self._lengths[slot] = None, (), 0.0
        self._free.append(slot)

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """The k best as (id, score above 0), best first; equal scores by id."""
        scores = np.zeros(len(self._id_at), dtype=np.float32)
        lengths = np.frombuffer(self._lengths, dtype=np.float32)
        average = max(self._total_length / max(len(self), 1), 1.0)
        for term in set(self._terms.of(query)):
            postings = self._postings.get(term)
            if postings is None:
                continue
            slots: Ints = np.frombuffer(postings.slots, dtype=np.uint32)
            counts = np.frombuffer(postings.counts, dtype=np.uint32).astype(np.float32)
            idf = np.float32(np.log1p((len(self) - len(slots) + 0.5) / (len(slots) + 0.5)))
            saturation = counts + np.float32(K1) * (1 - B + B / average * lengths[slots])
            scores[slots] += idf * np.float32(K1 + 1) * counts / saturation
        return self._best(scores, k)

    def _best(self, scores: npt.NDArray[np.float32], k: int) -> list[tuple[str, float]]:
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
        self._lengths.append(0.0)
        return len(self._id_at) - 1
