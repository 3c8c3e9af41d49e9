"""The order of candidates: their figures combined, the names that a request contains first."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.retrieval.fit import fit
from engine.retrieval.fusion import combine, fuse
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.word_match import Matched

MOST_TERMS = 48  # of a request, the rarest: a longer one is a document, and must not take longer than a turn may


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of the candidates of one request.

    ids: the candidates. sparse: their BM25 scores, where a word matched. dense: their cosine similarities, where they
    are among the nearest. named: 2 for one whose name the request contains letter by letter, 1 for one alike. matched:
    of each candidate, in the order of `ids`.
    """

    ids: Sequence[str]
    sparse: Mapping[str, float]
    dense: Mapping[str, float]
    named: Mapping[str, int]
    matched: Matched


def rarest_of(weights: Mapping[str, float]) -> list[str]:
    """The terms that count most, `MOST_TERMS` of them at most."""
    return sorted(weights, key=lambda term: (-weights[term], term))[:MOST_TERMS]


def candidates(
    sparse: Mapping[str, float], dense: Mapping[str, float], named: Mapping[str, int], count: int, dense_weight: float
) -> list[str]:
    """The ids of the `count` best of both lists fused, and of all that are named."""
    fused = fuse(sparse, dense, dense_weight)
    best = heapq.nsmallest(count, fused, key=lambda id_: (-fused[id_], id_))
    return list(dict.fromkeys([*best, *sorted(named)]))


def ranking(figures: Figures, k: int, weigh: Weigh | None = None) -> list[Ranked]:
    """The k best candidates, best first. weigh: asked for the factors of their scores, such as success rates."""
    ids, sparse, dense, named, matched = figures.ids, figures.sparse, figures.dense, figures.named, figures.matched
    farthest = min(dense.values(), default=0.0)  # one that is not among the nearest is no nearer than the last
    bm25 = np.array([sparse.get(id_, 0.0) for id_ in ids], dtype=np.float32)
    near = np.array([dense.get(id_, farthest) for id_ in ids], dtype=np.float32)
    scores = combine(bm25, near, matched.covered, matched.meant).tolist()
    factors = weigh(ids) if weigh is not None else {}
    final = [score * factors.get(id_, 1.0) + named.get(id_, 0) for id_, score in zip(ids, scores, strict=True)]
    best = heapq.nsmallest(k, range(len(ids)), key=lambda at: (-final[at], ids[at]))
    return [
        Ranked(
            id_ := ids[at],
            final[at],
            similarity=dense.get(id_, 0.0),
            bm25=sparse.get(id_, 0.0),
            covered=float(matched.covered[at]),
            fit=1.0 if id_ in named else fit(near[at], matched.covered[at], matched.meant[at]),
            named=id_ in named,
        )
        for at in best
    ]
