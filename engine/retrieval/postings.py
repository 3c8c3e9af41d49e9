"""Reads the postings of terms from the file of a `StoredIndex`, and scores documents by them (BM25F)."""

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import select_in

MOST_BYTES = 16 * 1024 * 1024  # memory for the postings of recently used terms
DENSE_FROM = 1 / 8  # a term in more than this share of documents is kept as one number per slot, which is faster to add
# For the threshold in `above`: the most blocks per requested score, and the fewest scores in a block.
_BLOCKS, _IN_BLOCK = 16, 8

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


def terms_of(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the id of each known term, and how many documents contain the term."""
    found = select_in(connection, "SELECT term, number, holders FROM terms WHERE term", terms)
    return {term: (number, holders) for term, number, holders in found}


class Postings:
    """Caches the postings of recently used terms. Not thread-safe; `StoredIndex` holds a lock while it uses them.

    For a term that many documents contain, the cache has an impact for every slot (document number). For any other
    term, it has the slots of the documents that contain the term, and the impact on each.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Ints | None, Floats]] = OrderedDict()
        self._bytes = 0

    def clear(self) -> None:
        """Discard everything, because the index has changed."""
        self._known.clear()
        self._bytes = 0

    def scores(self, connection: sqlite3.Connection, weights: Mapping[int, float], size: int) -> Floats:
        """Return the BM25 scores of all documents.

        Args:
            connection: Has an open transaction.
            weights: Weights of the request's terms, by number.
            size: One more than the highest slot.
        """
        scores = np.zeros(size, dtype=np.float32)
        for term, weight in weights.items():
            slots, impacts = self._of(connection, term, size)
            if slots is None:
                scores += impacts * np.float32(weight)
            else:
                scores[slots] += impacts * np.float32(weight)
        return scores

    def impacts(self, connection: sqlite3.Connection, terms: Sequence[int], slots: Sequence[int], size: int) -> Floats:
        """Return the impact of each of these terms (row) on each of these documents (column)."""
        found = np.zeros((len(terms), len(slots)), dtype=np.float32)
        column = np.full(size, -1, dtype=np.int32)
        column[list(slots)] = np.arange(len(slots))
        for row, term in enumerate(terms):
            holders, impacts = self._of(connection, term, size)
            if holders is None:
                found[row] = impacts[list(slots)]
            else:
                columns = column[holders]
                held = columns >= 0
                found[row, columns[held]] = impacts[held]
        return found

    def _of(self, connection: sqlite3.Connection, term: int, size: int) -> tuple[Ints | None, Floats]:
        known = self._known.get(term)
        if known is not None:
            self._known.move_to_end(term)
            return known
        blobs = [row[0] for row in connection.execute("SELECT data FROM postings WHERE term = ?", (term,))]
        halves = [len(blob) // 2 for blob in blobs]
        slots = np.frombuffer(b"".join(blob[:half] for blob, half in zip(blobs, halves, strict=True)), np.uint32)
        impacts = np.frombuffer(b"".join(blob[half:] for blob, half in zip(blobs, halves, strict=True)), np.float32)
        kept: tuple[Ints | None, Floats] = (slots.astype(np.intp), impacts)  # the type with which numpy indexes arrays
        if len(slots) > DENSE_FROM * size:
            every = np.zeros(size, dtype=np.float32)
            every[slots] = impacts
            kept = (None, every)
        self._known[term] = kept
        self._bytes += _bytes(kept)
        while self._bytes > MOST_BYTES and len(self._known) > 1:
            self._bytes -= _bytes(self._known.popitem(last=False)[1])
        return kept


def best_of(scores: Floats, count: int) -> dict[int, float]:
    """Return the `count` best scores above 0, by slot. Ties with the last one are included, for a stable order."""
    found = above(scores, count)
    found = found[scores[found] > 0]
    if len(found) > count:
        kth = np.partition(scores[found], len(found) - count)[len(found) - count]
        found = found[scores[found] >= kth]
    return dict(zip(found.tolist(), scores[found].tolist(), strict=True))


def above(scores: Floats, count: int) -> Ints:
    """Return the positions of the `count` greatest scores, in order, and of some others that are nearly as great.

    The scores are divided into blocks, and the threshold is the `count`-th greatest of the blocks' maxima. At least
    `count` scores reach it. Partitioning the maxima takes a tenth of the time of partitioning all scores.
    """
    blocks = min(count * _BLOCKS, len(scores) // _IN_BLOCK)
    if blocks <= count:
        return np.arange(len(scores))
    depth = len(scores) // blocks
    greatest = scores[: blocks * depth].reshape(depth, blocks).max(axis=0)
    bound = np.partition(greatest, blocks - count)[blocks - count]
    return np.flatnonzero(scores >= bound)


def _bytes(postings: tuple[Ints | None, Floats]) -> int:
    slots, impacts = postings
    return impacts.nbytes + (slots.nbytes if slots is not None else 0)
