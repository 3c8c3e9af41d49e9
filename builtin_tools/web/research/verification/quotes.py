"""Finds quotes on pages. Only a verbatim quote is found, apart from spaces, quote marks and forms of Unicode."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from builtin_tools.web.research.verification.normalization import NormalizedText, TextRange, normalized
from builtin_tools.web.research.verification.sentences import before, enclosing, sentence_ranges

LEAST_WORDS = 3  # a shorter quote is on nearly every page
LEAST_CHARACTERS = 12
MOST_CHARACTERS = 1_500
MOST_SEARCHED = 2_000_000  # characters of a page
MOST_PLACES = 20  # places of one quote that are considered
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """A quote where it was found, with what a reader of the page sees around it.

    Attributes:
        quote: The exact characters of the page.
        place: Their range.
        text: The sentences that the quote touches.
        lead: The sentence before them.
        title: The title of the page.
    """

    quote: str
    place: TextRange
    text: str
    lead: str = ""
    title: str = ""


class QuotableText:
    """The text of a page, prepared for finding quotes in it."""

    def __init__(self, text: str, title: str = "") -> None:
        self.text = text[:MOST_SEARCHED]
        self.title = title

    @cached_property
    def _normalized(self) -> NormalizedText:
        return NormalizedText.of(self.text)

    @cached_property
    def _sentences(self) -> list[TextRange]:
        return sentence_ranges(self.text)

    def find(self, quote: str) -> list[QuotedPassage]:
        """Return the places of a quote; an empty list if it is not on the page, or too short or long to be a quote.

        The first letter may be in another case. A quote that begins or ends inside a word is not found, because
        "able to" is not what "unable to" says.
        """
        wanted = normalized(quote)
        if len(wanted) > 1 and wanted[0] == wanted[-1] and wanted[0] in "\"'":
            wanted = wanted[1:-1].strip()
        if not LEAST_CHARACTERS <= len(wanted) <= MOST_CHARACTERS or len(_WORD.findall(wanted)) < LEAST_WORDS:
            return []
        for form in dict.fromkeys((wanted, wanted[0].swapcase() + wanted[1:])):
            found = [self._passage(place) for place in self._places(form)]
            if found:
                return found
        return []

    def _places(self, wanted: str) -> Iterator[TextRange]:
        text = self._normalized.text
        at, count = text.find(wanted), 0
        while at >= 0 and count < MOST_PLACES:
            end = at + len(wanted)
            if not _inside_word(text, at) and not _inside_word(text, end):
                yield self._normalized.original_range(at, end)
                count += 1
            at = text.find(wanted, at + 1)

    def _passage(self, place: TextRange) -> QuotedPassage:
        around = enclosing(self._sentences, place.start, place.end)
        lead = before(self._sentences, around.start)
        return QuotedPassage(
            self.text[place.start : place.end],
            place,
            self.text[around.start : around.end],
            self.text[lead.start : lead.end] if lead is not None else "",
            self.title,
        )


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and (text[at - 1].isalnum() and text[at].isalnum())
