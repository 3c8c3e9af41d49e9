"""`Ranked`: one result of a search. Imported wherever results are read, so it imports no numpy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Weigh = Callable[[Sequence[str]], Mapping[str, float]]  # factors from 0 to 1 by document id; 1 where none is given


@dataclass(frozen=True, slots=True)
class Ranked:
    """One result.

    score: 0 to 1 relative to this query's best, times the document's weight; 1 more when the query names it, 2 more
    when it does so letter by letter. similarity: cosine of the query with its nearest vector, 0 when it was not among
    the nearest. bm25: 0 when no word matched. covered: share of the query's words that it speaks of, in these or like
    ones. fit: from 0 to 1, how likely it is that it is of use at all (`engine.retrieval.fit`), 1 when named. All but
    `score` are comparable from query to query.
    """

    id: str
    score: float
    similarity: float = 0.0
    bm25: float = 0.0
    covered: float = 0.0
    fit: float = 0.0
    named: bool = False
