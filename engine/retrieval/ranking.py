"""Orders the candidates of a search by several figures, and says how likely each of them fits the request."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.background import Usual
from engine.retrieval.fit import FitEvidence
from engine.retrieval.fusion import Floats, Key, add_clauses, combine, fuse
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.word_match import Matched

MOST_TERMS = 48  # only the rarest terms of a request are used, so that a very long request stays fast


@dataclass(frozen=True, slots=True)
class ClauseFigures:
    """The figures of the candidates for one clause of a request, in the order of `Figures.ids`.

    Attributes:
        bm25: BM25 scores.
        near: Cosine similarities.
        matched: Result of the word-by-word comparison.
        terms: Number of terms in the clause.
    """

    bm25: Floats
    near: Floats
    matched: Matched
    terms: int

    @property
    def scores(self) -> Floats:
        return combine(self.bm25, self.near, self.matched.covered, self.matched.meant, self.terms)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the candidates for one request.

    Attributes:
        ids: The candidates.
        sparse: BM25 scores of the candidates that share a word with the request.
        dense: Cosine similarities of the candidates that are among the nearest documents.
        named: 2 for a candidate whose exact name is in the request, 1 if the spelling differs in case or `-` for `_`.
        matched: Result of the word-by-word comparison, in the order of `ids`.
        terms: Number of terms in the request.
        request: `FitEvidence.request`.
        chat: `FitEvidence.chat`.
        usual: Mean and standard deviation of the cosine of a line of small talk and its nearest vector in the index.
        clauses: The figures for each clause; empty if the request has only one clause.
        learned: Scores of the learned ranking in the order of `ids`; None without a model.
        weight: Weight of the learned ranking, from 0 to 1.
        farthest: The lowest cosine among the nearest documents. The cosines of all other documents are not higher.
    """

    ids: Sequence[str]
    sparse: Mapping[str, float]
    dense: Mapping[str, float]
    named: Mapping[str, int]
    matched: Matched
    terms: int
    request: float
    chat: float
    usual: Usual
    clauses: Sequence[ClauseFigures] = ()
    learned: npt.NDArray[np.float32] | None = None
    weight: float = 0.0
    farthest: float = 0.0


def rarest_of(weights: Mapping[str, float]) -> list[str]:
    """Return at most `MOST_TERMS` terms, those with the greatest weights."""
    return sorted(weights, key=lambda term: (-weights[term], term))[:MOST_TERMS]


def selected(
    sparse: Mapping[Key, float], dense: Mapping[Key, float], count: int, dense_weight: float
) -> dict[Key, float]:
    """Return the fused scores of the `count` best documents of both lists, and of all ties with the last one."""
    fused = fuse(sparse, dense, dense_weight)
    if len(fused) <= count:
        return fused
    last = sorted(fused.values())[-count]
    return {key: score for key, score in fused.items() if score >= last}


def ordered(fused: Mapping[str, float], named: Mapping[str, int], count: int) -> list[str]:
    """Return the ids of the `count` best documents and of all named ones. Equal scores are ordered by id."""
    best = sorted(fused, key=lambda id_: (-fused[id_], id_))[:count]
    return list(dict.fromkeys([*best, *sorted(named)]))


def ranking(figures: Figures, k: int, weigh: Weigh | None = None) -> list[Ranked]:
    """Return the `k` best candidates, best first.

    Args:
        figures: The candidates with their figures.
        k: The number of results.
        weigh: Returns factors for the scores of the candidates, such as success rates.
    """
    ids, sparse, dense, named, matched = figures.ids, figures.sparse, figures.dense, figures.named, figures.matched
    bm25 = np.array([sparse.get(id_, 0.0) for id_ in ids], dtype=np.float32)
    near = np.array([dense.get(id_, figures.farthest) for id_ in ids], dtype=np.float32)
    whole = combine(bm25, near, matched.covered, matched.meant, figures.terms)
    of_clauses = [clause.scores for clause in figures.clauses]
    combined = add_clauses(whole, of_clauses)
    learned = _of_best(figures.learned) if figures.learned is not None else None
    if learned is not None:
        combined = (1 - figures.weight) * _of_best(combined) + figures.weight * learned
    scores = combined.tolist()
    factors = weigh(ids) if weigh is not None else {}
    final = [score * factors.get(id_, 1.0) + named.get(id_, 0) for id_, score in zip(ids, scores, strict=True)]
    best = heapq.nsmallest(k, range(len(ids)), key=lambda at: (-final[at], ids[at]))
    evidence = {
        at: FitEvidence(
            float(bm25[at]),
            figures.request,
            figures.usual.deviation(float(near[at])),
            float(matched.meant[at]),
            figures.chat,
        )
        for at in best
    }
    return [
        Ranked(
            id_ := ids[at],
            final[at],
            similarity=dense.get(id_, 0.0),
            bm25=sparse.get(id_, 0.0),
            covered=float(matched.covered[at]),
            fit=1.0 if id_ in named else evidence[at].probability,
            named=id_ in named,
            evidence=evidence[at],
            learned=float(learned[at]) if learned is not None else 0.0,
            clauses=tuple(float(clause[at]) for clause in of_clauses),
        )
        for at in best
    ]


def _of_best(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Divide scores by the best one. Negative scores become 0."""
    best = float(scores.max(initial=0.0))
    positive: npt.NDArray[np.float32] = np.maximum(scores, 0)
    return positive / np.float32(best) if best > 0 else positive
