"""Several rankings into one: the convex combination of normalised scores.

Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (ACM TOIS 2023), find it better than
reciprocal rank fusion, and normalising from a fixed lowest score steadier than from the lowest one seen. Every score is
divided by the best of its list here (BM25's lowest is 0, and so is the cosine of unrelated texts). The figures are in
docs/design/retrieval.md.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

DENSE_WEIGHT = 0.5  # for the choice of candidates; the four below decide their order
WORDS, MEANING, COVERED, MEANT = 0.25, 0.25, 0.30, 0.20

Floats = npt.NDArray[np.float32]


def fuse(
    sparse: Mapping[str, float], dense: Mapping[str, float], dense_weight: float = DENSE_WEIGHT
) -> dict[str, float]:
    """A score from 0 to 1 for every id in either list.

    sparse: BM25 scores, above 0. dense: cosine similarities. An id that is missing from `sparse` did not match (0);
    one that is missing from `dense` is at best as near as the last one there, and is counted so. When nothing is in
    one of the lists, the other decides alone.
    """
    if not sparse or not dense:
        return _of_best(dense or sparse)
    low, near = _of_best(sparse), _of_best(dense)
    farthest = min(near.values())
    return {
        id_: (1.0 - dense_weight) * low.get(id_, 0.0) + dense_weight * near.get(id_, farthest)
        for id_ in low.keys() | near.keys()
    }


def combine(words: Floats, meaning: Floats, covered: Floats, meant: Floats) -> Floats:
    """A score from 0 to 1 for each candidate, from its four figures, each of them divided by its best."""
    parts = ((words, WORDS), (meaning, MEANING), (covered, COVERED), (meant, MEANT))
    scores = np.zeros(len(words), dtype=np.float32)
    for figures, weight in parts:
        best = figures.max(initial=0.0)
        if best > 0:
            scores += np.float32(weight) * (np.maximum(figures, 0) / best)
    return scores


def _of_best(scores: Mapping[str, float]) -> dict[str, float]:
    """Divided by the best, none below 0."""
    best = max(scores.values(), default=0.0)
    return {id_: max(score, 0.0) / best if best > 0 else 0.0 for id_, score in scores.items()}
