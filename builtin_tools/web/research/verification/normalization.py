"""`NormalizedText`: a text in a form in which quotes can be compared, with the way back to the exact offsets."""

import unicodedata
from bisect import bisect_left
from dataclasses import dataclass

_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u02bc`\u00b4"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_SAME = {
    **dict.fromkeys(_SINGLE_QUOTES, "'"),
    **dict.fromkeys(_DOUBLE_QUOTES, '"'),
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_INVISIBLE, ""),
}


@dataclass(frozen=True, slots=True)
class TextRange:
    """A range of characters of a text; `end` is excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text in Unicode form NFKC, with plain quote marks and hyphens, single spaces and no invisible characters.

    Attributes:
        text: The normalized text.
        starts, ends: For each character of it, the range of the original text from which it comes.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, original: str) -> "NormalizedText":
        """Normalize a text."""
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        while at < len(original):
            end = at + 1
            while end < len(original) and _belongs_to_the_one_before(original[end]):
                end += 1
            for character in _normalized(original[at:end]):
                if character == " " and pieces and pieces[-1] == " ":
                    ends[-1] = end
                    continue
                pieces.append(character)
                starts.append(at)
                ends.append(end)
            at = end
        return cls("".join(pieces), tuple(starts), tuple(ends))

    def original_range(self, start: int, end: int) -> TextRange:
        """Return the range of the original text from which a range of the normalized text comes.

        Raises:
            ValueError: The range is empty.
        """
        if not 0 <= start < end <= len(self.text):
            raise ValueError(f"There is no range from {start} to {end} in a text of {len(self.text)} characters.")
        return TextRange(self.starts[start], self.ends[end - 1])

    def normalized_offset(self, offset: int) -> int:
        """Return the offset in the normalized text of the first character that comes from `offset` or after it."""
        return bisect_left(self.starts, offset)


def normalized(text: str) -> str:
    """Return the normalized form of a text, without surrounding space."""
    return NormalizedText.of(text).text.strip()


def _belongs_to_the_one_before(character: str) -> bool:
    """Return whether a character may combine with the one before it, or stand invisibly between two that combine."""
    if character.isascii():
        return False
    if character in _INVISIBLE or unicodedata.combining(character):
        return True
    return bool(unicodedata.combining(unicodedata.normalize("NFKC", character)[0]))  # halfwidth voiced sound marks


def _normalized(cluster: str) -> str:
    """Normalize one character with those that belong to it."""
    if len(cluster) == 1:
        if cluster in _SAME:
            return _SAME[cluster]
        if cluster.isspace():
            return " "
        if cluster.isascii():
            return cluster
    composed = unicodedata.normalize("NFKC", "".join(each for each in cluster if each not in _INVISIBLE))
    return "".join(_SAME.get(each, " " if each.isspace() else each) for each in composed)
