"""Finds the sentences of a text as ranges of characters."""

import re
from bisect import bisect_right

from builtin_tools.web.research.verification.normalization import TextRange
from builtin_tools.web.research.verification.word_list import words

MOST_CHARACTERS = 1_000  # of a sentence; tables and lists without punctuation are cut
_HEADING = 50  # characters; a shorter line before a line that begins with a capital is a heading
_ABBREVIATIONS = words(
    "mr mrs ms dr prof st jr sr vs etc e.g i.e eg ie cf al fig no vol pp p ed eds approx ca dept inc ltd co "
    "corp jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k gen col lt sgt rev hon ph.d m.d b.c a.d"
)
_END = re.compile(
    r"[.!?\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb]*(?=\s|$)|\n[ \t]*\n|\n(?=[ \t]*(?:[-*\u2022]|\d+[.)])[ \t])|\n"
)
_LONGEST_WORD = 40  # characters before a full stop that may be an abbreviation
_WORD_BEFORE = re.compile(r"[\w.]+$")


def sentence_ranges(text: str) -> list[TextRange]:
    """Return the sentences of a text in order, without surrounding space.

    A blank line and the beginning of a list item end a sentence, too, and so does the end of a line after a heading or
    after a full stop. Other ends of lines do not, because plain text is wrapped.
    """
    found: list[TextRange] = []
    begin = 0
    for match in _END.finditer(text):
        if not _ends(text, match, begin):
            continue
        _append(found, text, begin, match.end())
        begin = match.end()
    _append(found, text, begin, len(text))
    return found


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[each.start : each.end] for each in sentence_ranges(text)]


def enclosing(sentences: list[TextRange], start: int, end: int) -> TextRange:
    """Return the range of all sentences that a range of characters touches, at least the range itself."""
    first = max(bisect_right(sentences, start, key=lambda each: each.start) - 1, 0)
    begin, stop = start, end
    for each in sentences[first:]:
        if each.start >= end:
            break
        if each.end > start:
            begin, stop = min(begin, each.start), max(stop, each.end)
    return TextRange(begin, stop)


def before(sentences: list[TextRange], start: int) -> TextRange | None:
    """Return the last sentence that ends at or before an offset; None if there is none."""
    at = bisect_right(sentences, start, key=lambda each: each.end) - 1
    return sentences[at] if at >= 0 else None


def _ends(text: str, match: re.Match[str], begin: int) -> bool:
    """Return whether a match is the end of a sentence that begins at `begin`."""
    mark, rest = match.group(), text[match.end() : match.end() + 40].lstrip()
    if mark.startswith("\n"):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if mark != "\n" or not rest or re.match(r"[-*\u2022]|\d+[.)]\s", rest):
            return True
        return line.endswith((".", "!", "?", ":")) or (len(line) < _HEADING and rest[0].isupper())
    if mark[0] != "." or not rest:
        return True
    word = _WORD_BEFORE.search(text, max(begin, match.start() - _LONGEST_WORD), match.start())
    last = word.group().casefold() if word else ""
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha() and text[match.start() - 1].isupper()):
        return False
    return not rest[0].islower()


def _append(found: list[TextRange], text: str, begin: int, end: int) -> None:
    part = text[begin:end]
    first = begin + len(part) - len(part.lstrip())
    last = begin + len(part.rstrip())
    while last - first > MOST_CHARACTERS:
        cut = text.rfind(" ", first + 1, first + MOST_CHARACTERS)
        stop = cut if cut > first else first + MOST_CHARACTERS
        found.append(TextRange(first, stop))
        first = stop + (text[stop : stop + 1] == " ")
    if first < last:
        found.append(TextRange(first, last))
