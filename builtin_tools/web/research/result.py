"""`ResearchResult`: what a research found, before it is written as a report or returned to a model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_tools.web.contract import SearchHit
from builtin_tools.web.research.disagreements import Disagreement
from builtin_tools.web.research.verification.claims import CheckedClaim, ClaimState, NumberedPage

_REMOVED = {
    ClaimState.INVENTED: "because the quotation is in none of the sources",
    ClaimState.WRONG_SOURCE: "because the quotation is in another source than the cited one",
    ClaimState.UNQUOTED: "because there was no usable quotation",
}


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """The result of a research.

    Attributes:
        questions: The question and its sub-questions.
        claims: All checked claims, including those that are not shown.
        hits: The search results, for the case that there is no answer.
        fallback: Why there are only search results; "" if there is an answer.
        partial: Why the research is incomplete; "" if it is complete.
        notes: What a person should know, such as pages that could not be read.
        routes: How the requests left the machine.
    """

    question: str
    questions: tuple[str, ...]
    sources: tuple[NumberedPage, ...]
    claims: tuple[CheckedClaim, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    fallback: str = ""
    partial: str = ""
    notes: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[CheckedClaim, ...]:
        """The claims that are shown."""
        return tuple(each for each in self.claims if each.state.kept)

    @property
    def cited(self) -> tuple[NumberedPage, ...]:
        """The sources that a shown claim cites."""
        numbers = {citation.source for claim in self.kept for citation in claim.citations}
        return tuple(each for each in self.sources if each.number in numbers)


def removals(claims: Sequence[CheckedClaim]) -> list[str]:
    """Return sentences that say how many claims were removed, and why."""
    counts = Counter(each.state for each in claims)
    return [
        f"{counts[state]} {'sentence was' if counts[state] == 1 else 'sentences were'} removed {why}."
        for state, why in _REMOVED.items()
        if counts[state]
    ]
