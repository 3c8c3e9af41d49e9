"""Combines several rankings into one by a convex combination of normalized scores.

Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (ACM TOIS 2023), found that this is better
than reciprocal rank fusion, and that scores should be normalized with a fixed minimum, which is more stable than the
observed minimum. Here every score is divided by the best score of its list. The fixed minimum is 0, which is BM25's
lowest score and the cosine of unrelated texts. docs/design/retrieval.md has measurements.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

DENSE_WEIGHT = 0.5  # weight of the vectors in the selection of candidates; the weights below determine the order
# Weights of the BM25 score, the cosine, and the matching shares of the request and of the name and description. They
# depend on how many terms a request has, since a short request has few words to match.
SHORT, LONG = 6, 16
OF_SHORT, OF_LONG = (0.20, 0.50, 0.20, 0.10), (0.25, 0.25, 0.30, 0.20)
CLAUSE = 0.5  # weight of the clause that a candidate matches best; the whole request has the remaining weight

Key = TypeVar("Key", str, int)
Floats = npt.NDArray[np.float32]


def fuse(
    sparse: Mapping[Key, float], dense: Mapping[Key, float], dense_weight: float = DENSE_WEIGHT
) -> dict[Key, float]:
    """Return a score from 0 to 1 for every id in either list. If one list is empty, only the other one counts.

    Args:
        sparse: BM25 scores, above 0. An id that is missing here did not match and counts as 0.
        dense: Cosine similarities. An id that is missing here counts as the lowest similarity in the list.
        dense_weight: Weight of the similarities, from 0 to 1.
    """
    if not sparse or not dense:
        return _of_best(dense or sparse)
    low, near = _of_best(sparse), _of_best(dense)
    farthest = min(near.values())
    return {
        id_: (1.0 - dense_weight) * low.get(id_, 0.0) + dense_weight * near.get(id_, farthest)
        for id_ in low.keys() | near.keys()
    }


def combine(words: Floats, meaning: Floats, covered: Floats, meant: Floats, terms: int) -> Floats:
    """Return a score from 0 to 1 for each candidate: the weighted sum of four figures, each divided by its maximum.

    Args:
        words: BM25 scores.
        meaning: Cosine similarities.
        covered: The share of the request that each candidate matches.
        meant: The share of each candidate's name and description that matches the request.
        terms: The number of terms in the request.
    """
    share = min(max((terms - SHORT) / (LONG - SHORT), 0.0), 1.0)
    scores = np.zeros(len(words), dtype=np.float32)
    for figures, short, long in zip((words, meaning, covered, meant), OF_SHORT, OF_LONG, strict=True):
        best = figures.max(initial=0.0)
        if best > 0:
            scores += np.float32((1 - share) * short + share * long) * (np.maximum(figures, 0) / best)
    return scores


def add_clauses(whole: Floats, clauses: Sequence[Floats]) -> Floats:
    """Return the scores of the candidates for a request and its clauses, from 0 to 1.

    Args:
        whole: Scores for the whole request.
        clauses: Scores for each clause, from 0 to 1. Only a candidate's best score counts, so that the best candidates
            of every clause rank high, even if they match little of the other clauses.
    """
    if not clauses:
        return whole
    best = float(whole.max(initial=0.0)) or 1.0
    scores: Floats = (1 - CLAUSE) * (whole / best) + CLAUSE * np.max(clauses, axis=0)
    return scores


def _of_best(scores: Mapping[Key, float]) -> dict[Key, float]:
    """Divide the scores by the best one. Negative scores become 0."""
    best = max(scores.values(), default=0.0)
    return {id_: max(score, 0.0) / best if best > 0 else 0.0 for id_, score in scores.items()}
