"""`Ranked`: one result of a search. Modules that only read results import it, so it does not import numpy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.retrieval.fit import FitEvidence

Weigh = Callable[[Sequence[str]], Mapping[str, float]]  # returns factors from 0 to 1 by document id; the default is 1


@dataclass(frozen=True, slots=True)
class Ranked:
    """One result of a search. All fields except `score` are comparable between queries.

    Attributes:
        id: Id of the document.
        score: The score relative to the best result of this query, from 0 to 1, times the document's factor (`Weigh`).
            If the query contains the document's name, 1 is added, or 2 if the spelling is exact.
        similarity: Cosine of the query and the document's nearest vector; 0 if it was not among the nearest.
        bm25: BM25 score; 0 if no word matched.
        covered: Share of the query's words for which the document has the same or a similar word, from 0 to 1.
        fit: Probability that the document is useful, from 0 to 1 (`FitEvidence.probability`); 1 if named.
        named: Whether the query contains the document's name.
        learned: Score of the learned ranking, from 0 to 1. The best candidate has 1. Always 0 without a model.
        clauses: The score for each clause of the request, from 0 to 1; empty if the request has only one clause.
        evidence: The figures from which `fit` was calculated; None if the result was not ranked by an index.
    """

    id: str
    score: float
    similarity: float = 0.0
    bm25: float = 0.0
    covered: float = 0.0
    fit: float = 0.0
    named: bool = False
    evidence: FitEvidence | None = None
    learned: float = 0.0
    clauses: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnedShares:
    """How the words and the embedding of a request contribute to a document's score in the learned ranking.

    Attributes:
        words: The share of each word of the request. A negative share is evidence against the document.
        meaning: The share of the request's embedding. The sum of all shares is 1.
    """

    words: Mapping[str, float]
    meaning: float
