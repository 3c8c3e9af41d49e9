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
        score: The score relative to the best result of this query, from 0 to 1, times the factor of the document; plus
            1 if the query contains its name, or plus 2 if it contains the exact spelling.
        similarity: Cosine of the query and the document's nearest vector; 0 if it was not among the nearest.
        bm25: BM25 score; 0 if no word matched.
        covered: Share of the query's words for which the document has the same or a similar word, from 0 to 1.
        fit: Probability that the document is useful, from 0 to 1 (`FitEvidence.probability`); 1 if named.
        named: Whether the query contains its name.
        learned: Score of the learned ranking, from 0 to 1 for the best candidate; 0 without a model.
        clauses: Scores for each clause of the request by words and meaning, from 0 to 1; empty if it has only one.
        evidence: What `fit` was calculated from; None if the result was not ranked by an index.
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
    """What the learned ranking's score of one document for one request comes from.

    Attributes:
        words: The share of each word of the request. A negative one is evidence against the document.
        meaning: The share of the request's embedding. All shares together are 1.
    """

    words: Mapping[str, float]
    meaning: float
