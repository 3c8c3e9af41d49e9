"""Splits the text of a document into passages that can be cited: each is a range of characters of the text."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from builtin_tools.documents.extraction import ExtractedText, Heading

USUAL = 700  # characters; paragraphs are joined until a passage has this length
MOST = 1_200  # characters; longer paragraphs are split
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?\u3002\uff01\uff1f])|(?<=[.!?][\"')\]\u201d\u2019\u00bb]))\s+|\n")
_SPACE = re.compile(r"\s+")
_BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage of a document.

    Attributes:
        start, end: The range of the passage in the document's text, in characters; `end` is excluded.
        page: The page of the passage, from 1; None if the format has no pages.
        title: The headings above the passage, highest first.
    """

    start: int
    end: int
    text: str
    page: int | None
    title: str


def split(document: ExtractedText) -> list[CitedPassage]:
    """Return the passages of a document, in order. A passage crosses neither a heading nor the end of a page."""
    text, titles = document.text, _titles(document.headings)
    bounds = sorted({0, *titles, *document.pages, len(text)})
    found: list[CitedPassage] = []
    title = ""
    for begin, end in pairwise(bounds):
        title = titles.get(begin, title)
        for start, stop in _ranges(text, begin, end):
            page = bisect_right(document.pages, start) if document.pages else 0
            found.append(CitedPassage(start, stop, text[start:stop], page or None, title))
    return found


def _titles(headings: Iterable[Heading]) -> dict[int, str]:
    """Return, by the offset of each heading, its text joined to those of the headings above it, highest first."""
    titles: dict[int, str] = {}
    path: list[Heading] = []
    for heading in sorted(headings, key=lambda each: (each.start, each.level)):
        path = [above for above in path if above.level < heading.level]
        path.append(heading)
        titles[heading.start] = _BETWEEN.join(each.text for each in path)
    return titles


def _ranges(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most `MOST` characters that together cover the text, without surrounding space."""
    start: int | None = None
    stop = begin
    for first, last in _pieces(text, begin, end):
        if start is not None and last - start > MOST:
            yield start, stop
            start = None
        if start is None:
            start = first
        stop = last
        if stop - start >= USUAL:
            yield start, stop
            start = None
    if start is not None:
        yield start, stop


def _pieces(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the paragraphs, and the parts of long paragraphs, as ranges."""
    for first, last in _between(_PARAGRAPH, text, begin, end):
        if last - first <= MOST:
            yield first, last
            continue
        for start, stop in _between(_SENTENCE_END, text, first, last):
            yield from _short(text, start, stop)


def _short(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield parts of at most `MOST` characters, split at spaces if possible."""
    while end - begin > MOST:
        spaces = list(_SPACE.finditer(text, begin + 1, begin + MOST))
        cut = spaces[-1].start() if spaces else begin + MOST
        yield begin, cut
        begin = spaces[-1].end() if spaces else cut
    if begin < end:
        yield begin, end


def _between(separator: re.Pattern[str], text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges between separators, without surrounding space."""
    at = begin
    for match in separator.finditer(text, begin, end):
        yield from _stripped(text, at, match.start())
        at = match.end()
    yield from _stripped(text, at, end)


def _stripped(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    part = text[begin:end]
    first = begin + len(part) - len(part.lstrip())
    last = begin + len(part.rstrip())
    if first < last:
        yield first, last
