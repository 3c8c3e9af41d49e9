"""Encodes postings of terms in three bytes each, merges them, and calculates BM25F scores from them.

A slot is the number of a passage. A row has the postings of one term in a range of slots: the offsets of the slots in
the range as uint16, in order, then the term's impact on each passage as a byte. Rows of this size can be appended to
quickly, and a frequent term in half a million passages has only 31 rows.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from engine.retrieval.bm25 import K1

PACKED_CHUNK = 1 << 14  # slots in the range of one row
# Most postings that one search reads. If there are more, the most frequent terms are skipped: they are the least
# informative, and the word-by-word comparison of the candidates still includes them.
MOST_POSTINGS = 400_000
_STEP = (K1 + 1) / 255  # an impact is less than K1 + 1

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


def quantized(impacts: Floats) -> Bytes:
    """Encode impacts as bytes, at least 1, because 0 means that there is no posting."""
    found: Bytes = np.maximum(np.rint(impacts / _STEP), 1).astype(np.uint8)
    return found


def impacts_of(data: Bytes) -> Floats:
    """Return the impacts that `quantized` encoded."""
    found: Floats = data * np.float32(_STEP)
    return found


def merge_postings(connection: sqlite3.Connection, terms: Ints, slots: Ints, impacts: Bytes) -> None:
    """Write postings within a transaction. An impact of 0 removes the posting.

    Args:
        connection: Has an open transaction.
        terms, slots, impacts: Parallel arrays; the pairs of term and slot are distinct.
    """
    chunks = slots // PACKED_CHUNK
    order = np.lexsort((slots, chunks, terms))
    terms, chunks, impacts = terms[order], chunks[order], impacts[order]
    offsets = (slots[order] % PACKED_CHUNK).astype(np.uint16)
    ends = np.flatnonzero((np.diff(terms) != 0) | (np.diff(chunks) != 0)) + 1
    bounds = [0, *ends.tolist(), len(terms)]
    for start, end in pairwise(bounds):
        if start == end:
            continue
        key = (int(terms[start]), int(chunks[start]))
        row = connection.execute("SELECT data FROM postings WHERE term = ? AND chunk = ?", key).fetchone()
        data = _merged(row[0] if row else b"", offsets[start:end], impacts[start:end])
        if data:
            connection.execute("INSERT OR REPLACE INTO postings VALUES (?, ?, ?)", (*key, data))
        elif row:
            connection.execute("DELETE FROM postings WHERE term = ? AND chunk = ?", key)


def packed_postings(connection: sqlite3.Connection, term: int) -> tuple[Ints, Floats]:
    """Return the slots of the passages that contain a term, in order, and the term's impact on each."""
    slots: list[Ints] = []
    impacts: list[Bytes] = []
    rows = connection.execute("SELECT chunk, data FROM postings WHERE term = ? ORDER BY chunk", (term,))
    for chunk, data in rows:
        offsets, of_row = _unpacked(data)
        slots.append(offsets.astype(np.uint32) + np.uint32(chunk * PACKED_CHUNK))
        impacts.append(of_row)
    if not slots:
        return np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.float32)
    return np.concatenate(slots), impacts_of(np.concatenate(impacts))


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The postings of the terms of a request.

    Attributes:
        weights: For each term, its weight.
        slots: For each term, the slots of the passages that contain it, in order.
        impacts: For each term, its impact on each of these slots.
    """

    weights: Sequence[float]
    slots: Sequence[Ints]
    impacts: Sequence[Floats]

    @classmethod
    def read(
        cls,
        connection: sqlite3.Connection,
        weights: Mapping[int, float],
        holders: Mapping[int, int],
        allowed: Mask | None,
    ) -> Self:
        """Read the postings of the rarest terms: at most `MOST_POSTINGS`, unless the rarest term alone has more.

        Args:
            connection: Has an open transaction.
            weights: The weight of each term, by term id.
            holders: The number of passages that contain each term.
            allowed: A mask of the slots to include; None includes all.
        """
        kept: list[float] = []
        every: list[Ints] = []
        impacts: list[Floats] = []
        left = MOST_POSTINGS
        for term in sorted(weights, key=lambda term: (holders[term], term)):
            left -= holders[term]
            if left < 0 and every:
                break
            slots, of_term = packed_postings(connection, term)
            if allowed is not None:
                counted = allowed[slots]
                slots, of_term = slots[counted], of_term[counted]
            kept.append(weights[term])
            every.append(slots)
            impacts.append(of_term)
        return cls(kept, every, impacts)

    def scores(self, size: int) -> Floats:
        """Return the BM25 scores of all slots, followed by a 0 that stands for missing neighbours.

        Args:
            size: The number of slots.
        """
        scores = np.zeros(size + 1, dtype=np.float32)
        for weight, slots, impacts in zip(self.weights, self.slots, self.impacts, strict=True):
            scores[slots] += impacts * np.float32(weight)
        return scores


def _unpacked(data: bytes) -> tuple[npt.NDArray[np.uint16], Bytes]:
    count = len(data) // 3
    return np.frombuffer(data, np.uint16, count), np.frombuffer(data, np.uint8, count, offset=2 * count)


def _merged(data: bytes, offsets: npt.NDArray[np.uint16], impacts: Bytes) -> bytes:
    old, old_impacts = _unpacked(data)
    if len(old) and old[-1] >= offsets[0]:
        kept = ~np.isin(old, offsets)
        old, old_impacts = old[kept], old_impacts[kept]
    new = impacts > 0
    every, every_impact = np.concatenate([old, offsets[new]]), np.concatenate([old_impacts, impacts[new]])
    if len(old) and new.any() and old[-1] > offsets[new][0]:
        order = np.argsort(every)
        every, every_impact = every[order], every_impact[order]
    return every.tobytes() + every_impact.tobytes()
