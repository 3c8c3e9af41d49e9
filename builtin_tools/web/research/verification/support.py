"""Finds the parts of a claim that its quotation does not support: numbers, dates, names and negations."""

import re
from dataclasses import dataclass
from enum import StrEnum

from builtin_tools.web.research.verification.dates import StatedDate, alike, dates_of, states_date, without
from builtin_tools.web.research.verification.names import missing_names
from builtin_tools.web.research.verification.polarity import opposite
from builtin_tools.web.research.verification.quantities import Quantity, comparable, quantities_of, states
from builtin_tools.web.research.verification.quotes import QuotedPassage
from engine.retrieval.terms import Terms

# A sentence that begins with such a word continues the one before it, which then says who or what is meant.
_CONTINUES = re.compile(
    r"(?:it|its|he|his|she|her|they|their|this|these|that|those|both|the latter|the former|such|there|then|the)\b",
    re.IGNORECASE,
)


class UnsupportedKind(StrEnum):
    """What kind of part a quotation does not support."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    NEGATION = "negation"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class UnsupportedPart:
    """A part of a claim that its quotation does not support.

    Attributes:
        text: The part as it is in the claim, or, for a negation, what is different.
        contradicted: Whether the quotation has something else in its place, such as another year.
    """

    kind: UnsupportedKind
    text: str
    contradicted: bool = False

    def __str__(self) -> str:
        if self.kind is UnsupportedKind.NEGATION:
            return self.text
        if self.kind is UnsupportedKind.TOPIC:
            return "the quotation is about something else"
        return f"the {self.kind} “{self.text}” is not in the quotation"


class SupportCheck:
    """Compares claims with quotations. Not thread-safe, since the stemmer has a cache."""

    def __init__(self) -> None:
        self._terms = Terms()

    def unsupported(self, claim: str, passage: QuotedPassage) -> tuple[UnsupportedPart, ...]:
        """Return the parts of a claim that a quotation does not support.

        The quotation counts together with the sentences that it touches. For names, the title of the page counts, too,
        and so does the sentence before if the quoted sentence refers to it by its first word.
        """
        context = passage.title
        if _CONTINUES.match(passage.text.lstrip('-*\u2022 "\u201c')):
            context += "\n" + passage.lead
        dates, stated = dates_of(claim), dates_of(passage.text)
        numbers = quantities_of(without(passage.text, stated))
        found = [
            UnsupportedPart(UnsupportedKind.DATE, each.text, any(alike(date, each) for date in stated))
            for each in dates
            if not states_date(stated, each) and not _as_number(each, numbers)
        ]
        found += [
            UnsupportedPart(UnsupportedKind.NUMBER, each.text, any(comparable(one, each) for one in numbers))
            for each in quantities_of(without(claim, dates))
            if not states(numbers, each) and not _as_year(each, stated)
        ]
        found += [UnsupportedPart(UnsupportedKind.NAME, each) for each in missing_names(claim, passage.text, context)]
        difference = opposite(claim, passage.text, self._terms)
        if difference:
            found.append(UnsupportedPart(UnsupportedKind.NEGATION, difference, contradicted=True))
        if not found and not self._same_topic(claim, f"{passage.text}\n{passage.title}\n{passage.lead}"):
            found.append(UnsupportedPart(UnsupportedKind.TOPIC, claim))
        return tuple(found)

    def _same_topic(self, claim: str, passage: str) -> bool:
        """Return whether a claim and a passage have a word in common that is neither a number nor a stop word."""
        words = {term for term in self._terms.of(claim) if not term[0].isdigit()}
        return not words or not words.isdisjoint(self._terms.of(passage))


def _as_number(date: StatedDate, numbers: list[Quantity]) -> bool:
    """Return whether a number that looks like a year, such as 1500, is a plain number of the passage."""
    only_year = date.year is not None and date.month is None and date.day is None
    return only_year and any(each.value == date.year and not each.ordinal for each in numbers)


def _as_year(quantity: Quantity, dates: list[StatedDate]) -> bool:
    return not quantity.dimension and any(each.year == quantity.value and each.month is None for each in dates)
