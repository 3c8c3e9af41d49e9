"""Finds confirmed claims of different sources that contradict each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from builtin_tools.web.research.verification.claims import CheckedClaim, ClaimState
from builtin_tools.web.research.verification.normalization import TextRange
from builtin_tools.web.research.verification.quotes import QuotedPassage
from builtin_tools.web.research.verification.support import SupportCheck, UnsupportedKind
from engine.retrieval.terms import Terms

LEAST_SHARED = 3  # words
LEAST_OVERLAP = 0.6  # of the words of the claim with fewer words
_KINDS = {UnsupportedKind.NUMBER, UnsupportedKind.DATE, UnsupportedKind.NEGATION}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two claims about the same thing, from different sources, that differ in a number, a date or a negation."""

    one: CheckedClaim
    other: CheckedClaim


def disagreements_of(claims: Sequence[CheckedClaim]) -> list[Disagreement]:
    """Return the pairs of confirmed claims that disagree."""
    confirmed = [each for each in claims if each.state is ClaimState.CONFIRMED]
    terms, support = Terms(), SupportCheck()
    words = [{term for term in terms.of(each.text) if not term[0].isdigit()} for each in confirmed]
    found = []
    for (at, one), (place, other) in combinations(enumerate(confirmed), 2):
        if {each.source for each in one.citations} & {each.source for each in other.citations}:
            continue
        shared, least = words[at] & words[place], min(len(words[at]), len(words[place]))
        if len(shared) < LEAST_SHARED or len(shared) < LEAST_OVERLAP * least:
            continue
        kinds = _differences(support, one.text, other.text), _differences(support, other.text, one.text)
        if all(kinds) and all(each <= _KINDS for each in kinds):
            found.append(Disagreement(one, other))
    return found


def _differences(support: SupportCheck, claim: str, other: str) -> set[UnsupportedKind]:
    passage = QuotedPassage(other, TextRange(0, len(other)), other)
    return {part.kind for part in support.unsupported(claim, passage)}
