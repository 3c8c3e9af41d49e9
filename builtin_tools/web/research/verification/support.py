"""Finds the parts of a claim that its quotation does not support: numbers, dates, names and negations."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from builtin_tools.web.research.verification.dates import StatedDate, alike, dates_of, states_date, without
from builtin_tools.web.research.verification.names import missing_names, names_of
from builtin_tools.web.research.verification.polarity import opposite
from builtin_tools.web.research.verification.quantities import (
    Quantity,
    comparable,
    instead_of,
    quantities_of,
    states,
)
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

        The quotation counts together with the sentences that it touches. They add what it leaves out, but do not
        replace what it says: if it has another number of the same kind, theirs does not count. For names, the title of
        the page counts, too, and so does the sentence before if the quoted sentence refers to it by its first word.
        """
        context = passage.title
        if _CONTINUES.match(passage.text.lstrip('-*\u2022 "\u201c')):
            context += "\n" + passage.lead
        found = [*_dates(claim, passage), *_numbers(claim, passage)]
        found += [UnsupportedPart(UnsupportedKind.NAME, each) for each in _names(claim, passage, context)]
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


def _dates(claim: str, passage: QuotedPassage) -> Iterator[UnsupportedPart]:
    stated, quoted = dates_of(passage.text), dates_of(passage.quote)
    numbers = quantities_of(without(passage.text, stated))
    for each in dates_of(claim):
        instead = any(alike(date, each) for date in quoted) and not states_date(quoted, each)
        if instead or not (states_date(stated, each) or _as_number(each, numbers)):
            yield UnsupportedPart(UnsupportedKind.DATE, each.text, any(alike(date, each) for date in stated))


def _numbers(claim: str, passage: QuotedPassage) -> Iterator[UnsupportedPart]:
    stated = dates_of(passage.text)
    numbers = quantities_of(without(passage.text, stated))
    quoted = quantities_of(without(passage.quote, dates_of(passage.quote)))
    for each in quantities_of(without(claim, dates_of(claim))):
        if instead_of(quoted, each) or not (states(numbers, each) or _as_year(each, stated)):
            contradicted = any(comparable(one, each) for one in numbers)
            yield UnsupportedPart(UnsupportedKind.NUMBER, each.text, contradicted)


def _names(claim: str, passage: QuotedPassage, context: str) -> list[str]:
    """Return the names that are missing: those that are nowhere, or all if the quotation has only other names."""
    missing = missing_names(claim, passage.text, context)
    names = list(dict.fromkeys(each.text for each in names_of(claim)))
    if missing or not names or not names_of(passage.quote):
        return missing
    outside = missing_names(claim, passage.quote, context)
    return names if len(outside) == len(names) else []


def _as_number(date: StatedDate, numbers: list[Quantity]) -> bool:
    """Return whether a number that looks like a year, such as 1500, is a plain number of the passage."""
    only_year = date.year is not None and date.month is None and date.day is None
    return only_year and any(each.value == date.year and not each.ordinal for each in numbers)


def _as_year(quantity: Quantity, dates: list[StatedDate]) -> bool:
    return not quantity.dimension and any(each.year == quantity.value and each.month is None for each in dates)
