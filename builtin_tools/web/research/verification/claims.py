"""Checks the claims of a model against the pages that it cites (`ClaimCheck`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from builtin_tools.web.contract import Page
from builtin_tools.web.research.verification.quotes import QuotableText, QuotedPassage
from builtin_tools.web.research.verification.sentences import sentences_of
from builtin_tools.web.research.verification.support import SupportCheck, UnsupportedPart


class ClaimState(StrEnum):
    """What the check of a claim found.

    Attributes:
        CONFIRMED: Every quotation is in its source, and supports what can be checked of the claim.
        UNSUPPORTED: Every quotation is in its source, but a number, date, name or negation of the claim is not there.
        INVENTED: A quotation is in none of the sources.
        WRONG_SOURCE: A quotation is in another source than the cited one.
        UNQUOTED: The claim has no quotation, or one that is too short to prove anything.
    """

    CONFIRMED = "confirmed"
    UNSUPPORTED = "unsupported"
    INVENTED = "invented"
    WRONG_SOURCE = "wrong_source"
    UNQUOTED = "unquoted"

    @property
    def kept(self) -> bool:
        """Whether the claim may be shown. A claim that is not confirmed is labelled."""
        return self in {ClaimState.CONFIRMED, ClaimState.UNSUPPORTED}


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """A page that was read for a question, with the number by which it is cited, from 1."""

    number: int
    page: Page


@dataclass(frozen=True, slots=True)
class GivenQuote:
    """A quotation as a model gave it."""

    source: int
    text: str


@dataclass(frozen=True, slots=True)
class GivenClaim:
    """A claim as a model gave it."""

    text: str
    quotes: tuple[GivenQuote, ...]


@dataclass(frozen=True, slots=True)
class Citation:
    """A quotation that is in its source.

    Attributes:
        source: The number of the source.
        quote: The exact characters of the source's text.
        start, end: Their range in that text, in characters.
        sha256: The hex digest of that text in UTF-8.
        passage: The sentences that the quotation touches.
    """

    source: int
    quote: str
    start: int
    end: int
    sha256: str
    passage: str = ""


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim after the check.

    Attributes:
        citations: Its quotations; empty unless the claim is kept.
        unsupported: What the quotations do not support.
    """

    text: str
    state: ClaimState
    citations: tuple[Citation, ...] = ()
    unsupported: tuple[UnsupportedPart, ...] = ()


class ClaimCheck:
    """Checks claims against a set of sources. Not thread-safe."""

    def __init__(self, sources: Sequence[NumberedPage]) -> None:
        self._pages = {each.number: each.page for each in sources}
        self._texts = {each.number: QuotableText(each.page.text, each.page.title) for each in sources}
        self._support = SupportCheck()

    def check(self, claim: GivenClaim) -> Iterator[CheckedClaim]:
        """Yield the checked sentences of a claim. Each is checked on its own with all quotations of the claim."""
        found: list[tuple[GivenQuote, list[QuotedPassage]]] = []
        for quote in claim.quotes:
            places = self._places(quote)
            if not places:
                state = self._why_not_found(quote)
                yield from (CheckedClaim(sentence, state) for sentence in sentences_of(claim.text))
                return
            found.append((quote, places))
        for sentence in sentences_of(claim.text):
            yield self._checked(sentence, found) if found else CheckedClaim(sentence, ClaimState.UNQUOTED)

    def _places(self, quote: GivenQuote) -> list[QuotedPassage]:
        text = self._texts.get(quote.source)
        return text.find(quote.text) if text is not None else []

    def _why_not_found(self, quote: GivenQuote) -> ClaimState:
        if not QuotableText(quote.text).find(quote.text):
            return ClaimState.UNQUOTED  # too short or too long
        elsewhere = any(text.find(quote.text) for text in self._texts.values())
        return ClaimState.WRONG_SOURCE if elsewhere else ClaimState.INVENTED

    def _checked(self, sentence: str, found: Sequence[tuple[GivenQuote, list[QuotedPassage]]]) -> CheckedClaim:
        """Check a sentence. If a quotation is in several places, the one that supports the sentence best counts."""
        best = [(quote, min(places, key=lambda each: len(self._parts(sentence, each)))) for quote, places in found]
        together = best[0][1]
        for _, passage in best[1:]:
            together = replace(
                together,
                text=f"{together.text}\n{passage.text}",
                lead=f"{together.lead}\n{passage.lead}",
                title=f"{together.title}\n{passage.title}",
            )
        unsupported = self._parts(sentence, together)
        if unsupported and any(not self._parts(sentence, passage) for _, passage in best):
            unsupported = ()  # one of the quotations is sufficient
        state = ClaimState.UNSUPPORTED if unsupported else ClaimState.CONFIRMED
        return CheckedClaim(sentence, state, tuple(self._citation(*each) for each in best), unsupported)

    def _parts(self, sentence: str, passage: QuotedPassage) -> tuple[UnsupportedPart, ...]:
        return self._support.unsupported(sentence, passage)

    def _citation(self, quote: GivenQuote, passage: QuotedPassage) -> Citation:
        digest = self._pages[quote.source].sha256
        return Citation(quote.source, passage.quote, passage.place.start, passage.place.end, digest, passage.text)


def check_claims(sources: Sequence[NumberedPage], claims: Sequence[GivenClaim]) -> list[CheckedClaim]:
    """Check claims against the sources that they cite. Takes milliseconds per claim and page."""
    check = ClaimCheck(sources)
    return [checked for claim in claims for checked in check.check(claim)]
