"""Selects the candidates of a search for passages: the best by words, and the nearest by meaning."""

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.retrieval.passage_arrays import CodedVectors, Columns, Ints, Mask, cosines
from engine.retrieval.passage_context import gathered, neighbourhood
from engine.stores.embedder import Vectors

# Number of passages preselected by cheap scores: without neighbours, and with one bit per dimension of a vector. Exact
# scores are calculated only for these. In an index with fewer passages, they are calculated for all.
PRESELECTED = 1_000
_BLOCK = 32  # figures in a block
_BLOCKS_FOR_EACH = 4  # blocks are used only if there are this many for each selected figure

Floats = npt.NDArray[np.float32]


def above(figures: npt.NDArray[Any], count: int) -> Ints:
    """Return the positions of the `count` greatest figures, in order, and of some that are nearly as great.

    The figures are divided into blocks, and the threshold is the `count`-th greatest of the blocks' maxima. At least
    `count` figures reach it, and not many more if there are many blocks. Finding the maxima takes a tenth of the time
    of partitioning all figures.
    """
    if len(figures) <= count:
        return np.arange(len(figures))
    blocks = len(figures) // _BLOCK
    maxima = figures
    if blocks >= _BLOCKS_FOR_EACH * count:
        in_blocks = figures[: blocks * _BLOCK].reshape(blocks, _BLOCK)
        maxima = np.append(in_blocks.max(axis=1), figures[blocks * _BLOCK :])
    found: Ints = np.flatnonzero(figures >= np.partition(maxima, len(maxima) - count)[len(maxima) - count])
    return found


def best(slots: Ints, figures: Floats, count: int) -> Ints:
    """Return the slots with the `count` greatest figures above 0, and all ties with the last one.

    Args:
        slots: Slot numbers in ascending order.
        figures: The figure of each slot.
    """
    positive = figures > 0
    slots, figures = slots[positive], figures[positive]
    if len(slots) <= count:
        return slots
    kth = np.partition(figures, len(slots) - count)[len(slots) - count]
    found: Ints = slots[figures >= kth]
    return found


def by_words(scores: Floats, columns: Columns, allowed: Mask, count: int) -> Ints:
    """Return the slots with the best BM25 scores, after the scores of neighbouring passages are added.

    Args:
        scores: The score of each slot, which is 0 for a slot that is not allowed, and another 0 at the end.
        columns: The columns of all slots.
        allowed: A mask of the slots that may be returned.
        count: The number of slots to return; ties with the last one are returned as well.
    """
    some = above(scores[:-1], PRESELECTED)
    slots = neighbourhood(some[scores[some] > 0], columns)
    slots = slots[allowed[slots]]
    return best(slots, gathered(scores, slots, columns), count)


def preselected(vectors: CodedVectors, vector: Vectors, allowed: Mask, count: int) -> Ints:
    """Return the slots whose vectors are probably nearest to `vector`, in ascending order of the slots."""
    if np.count_nonzero(allowed) <= count:
        return np.flatnonzero(allowed)
    nearness = vectors.nearness(vector)[: len(allowed)]
    nearness *= allowed
    slots = above(nearness, count)
    return slots[allowed[slots]]


class Meaning:
    """The cosine of a request and each passage, calculated on demand."""

    def __init__(self, vectors: CodedVectors, vector: Vectors, columns: Columns, allowed: Mask) -> None:
        """Create the object.

        Args:
            vectors: The vectors of all slots.
            vector: The vector of the request.
            columns: The columns of all slots.
            allowed: A mask of the slots that may be returned.
        """
        self._vectors = vectors
        self._vector = vector
        self._columns = columns
        self._allowed = allowed
        self._known = np.zeros(len(allowed), dtype=np.bool_)
        self._cosines = np.zeros(len(allowed) + 1, dtype=np.float32)

    def candidates(self, count: int) -> Ints:
        """Return the slots of the `count` nearest passages."""
        near = preselected(self._vectors, self._vector, self._allowed, max(PRESELECTED, 2 * count))
        slots = neighbourhood(near, self._columns)
        slots = slots[self._allowed[slots]]
        return best(slots, self.of(slots), count)

    def own(self, slots: Ints) -> Floats:
        """Return the cosines of these slots."""
        new = slots[~self._known[slots]]
        self._cosines[new] = cosines(self._vectors.rows[new], self._vector) * self._allowed[new]
        self._known[new] = True
        return self._cosines[slots]

    def of(self, slots: Ints) -> Floats:
        """Return the cosines of these slots, with the weighted cosines of their neighbours added."""
        self.own(neighbourhood(slots, self._columns))
        return gathered(self._cosines, slots, self._columns)
