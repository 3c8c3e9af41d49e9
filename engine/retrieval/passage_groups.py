"""`GroupScores`: scores the groups of candidates, since a request is often about a whole conversation or document."""

import numpy as np
import numpy.typing as npt

from engine.retrieval.packed_postings import TermPostings
from engine.retrieval.passage_arrays import Columns, Ints

K1 = 2.0  # how quickly the occurrences of a term in a group saturate
B = 0.5  # how much a greater number of passages reduces the score

Floats = npt.NDArray[np.float32]


class GroupScores:
    """Scores groups by BM25, as if each were one text. A passage without a group is a group of its own."""

    def __init__(self, columns: Columns, alone: int) -> None:
        """Count the passages of each group.

        Args:
            columns: The columns of all slots.
            alone: The group number that all passages without a group have; -1 if there are none.
        """
        self._alone = alone
        self._sizes = np.bincount(columns["group"][columns["used"] != 0], minlength=1)
        in_groups = self._sizes.sum() - (self._sizes[alone] if alone >= 0 else 0)
        groups = np.count_nonzero(self._sizes) - (alone >= 0)
        self._mean = max(float(in_groups) / max(int(groups), 1), 1.0)

    def named(self, group: int) -> bool:
        """Return whether this number denotes a real group, and not the passages without a group."""
        return group != self._alone

    def of(self, postings: TermPostings, slots: Ints, columns: Columns) -> Floats:
        """Return, for each of these slots, the score of its passage's group. The slots must be distinct."""
        groups, own = np.unique(columns["group"][slots], return_inverse=True)
        alone = columns["group"][slots] == self._alone
        own = np.where(alone, len(groups) + np.arange(len(slots)), own)
        of_group = np.full(len(self._sizes), -1, dtype=np.int32)
        of_group[groups] = np.arange(len(groups))
        of_slot = np.full(len(columns["group"]), -1, dtype=np.int32)
        of_slot[slots[alone]] = own[alone]
        sizes = np.ones(len(groups) + len(slots), dtype=np.float32)
        sizes[: len(groups)] = self._sizes[groups]
        saturation = K1 * (1 - B + B * sizes / self._mean)
        scores = np.zeros(len(sizes), dtype=np.float32)
        for weight, of_term, impacts in zip(postings.weights, postings.slots, postings.impacts, strict=True):
            of_each = columns["group"][of_term]
            index = np.where(of_each == self._alone, of_slot[of_term], of_group[of_each])
            counted = index >= 0
            sums = np.bincount(index[counted], impacts[counted], len(sizes)).astype(np.float32)
            scores += np.float32(weight) * (K1 + 1) * sums / (saturation + sums)
        found: Floats = scores[own]
        return found
