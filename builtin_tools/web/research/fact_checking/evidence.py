"""Evidence for and against a claim, and the verdict that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from builtin_tools.web.research.fact_checking.independence import independent, source_groups
from builtin_tools.web.research.verification.claims import Citation, ClaimCheck, GivenClaim, GivenQuote, NumberedPage
from builtin_tools.web.research.verification.support import UnsupportedKind, UnsupportedPart

Stance = Literal["supports", "refutes"]


class FactVerdict(StrEnum):
    """The verdict on a claim.

    Attributes:
        SUPPORTED: There is evidence for it, and none against it.
        REFUTED: There is evidence against it, and none for it.
        CONFLICTING: There is evidence for it and against it.
        NOT_ENOUGH_EVIDENCE: There is none that could be confirmed.
    """

    SUPPORTED = "supported"
    REFUTED = "refuted"
    CONFLICTING = "conflicting"
    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"


@dataclass(frozen=True, slots=True)
class GivenEvidence:
    """A quotation with the stance that a model gave it."""

    quote: GivenQuote
    stance: Stance


@dataclass(frozen=True, slots=True)
class CheckedEvidence:
    """A quotation that is in its source.

    Attributes:
        stance: Whether it speaks for or against the claim, according to the model.
        differences: The parts of the claim that are not in the quoted passage.
        counts: Whether it counts for the verdict. A quotation that "supports" a claim but has another number, date or
            polarity does not count.
    """

    citation: Citation
    stance: Stance
    differences: tuple[UnsupportedPart, ...]
    counts: bool


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with its evidence and verdict.

    Attributes:
        supporting, refuting: The numbers of independent sources for and against it.
        removed: The number of quotations that are not in the cited source.
    """

    verdict: FactVerdict
    evidence: tuple[CheckedEvidence, ...]
    supporting: int
    refuting: int
    removed: int


def judge(claim: str, sources: Sequence[NumberedPage], given: Sequence[GivenEvidence]) -> JudgedClaim:
    """Check the quotations that a model gave as evidence, and compute the verdict from those that count."""
    check = ClaimCheck(sources)
    found: dict[tuple[int, int, int], CheckedEvidence] = {}
    removed = 0
    for each in given:
        checked = _checked(check, claim, each)
        if checked is None:
            removed += 1
            continue
        place = (checked.citation.source, checked.citation.start, checked.citation.end)
        found.setdefault(place, checked)
    evidence = tuple(found.values())
    groups = source_groups(sources)
    supporting = independent([each.citation for each in evidence if each.counts and each.stance == "supports"], groups)
    refuting = independent([each.citation for each in evidence if each.counts and each.stance == "refutes"], groups)
    return JudgedClaim(verdict_of(supporting, refuting), evidence, supporting, refuting, removed)


def verdict_of(supporting: int, refuting: int) -> FactVerdict:
    """Return the verdict for numbers of independent sources for and against a claim."""
    if supporting and refuting:
        return FactVerdict.CONFLICTING
    if supporting or refuting:
        return FactVerdict.SUPPORTED if supporting else FactVerdict.REFUTED
    return FactVerdict.NOT_ENOUGH_EVIDENCE


def _checked(check: ClaimCheck, claim: str, given: GivenEvidence) -> CheckedEvidence | None:
    """Return the evidence with its place; None if the quotation is not in the cited source."""
    sentences = list(check.check(GivenClaim(claim, (given.quote,))))
    if not sentences or not all(each.state.kept for each in sentences):
        return None
    differences = tuple(dict.fromkeys(part for each in sentences for part in each.unsupported))
    off_topic = any(part.kind is UnsupportedKind.TOPIC for part in differences)
    contradicts = given.stance == "supports" and any(part.contradicted for part in differences)
    return CheckedEvidence(sentences[0].citations[0], given.stance, differences, not off_topic and not contradicts)
