"""Reads numbers that are written as words, such as "three hundred and twelve" and "two thirds"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

_UNITS = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "  # noqa: SIM905
        "seventeen eighteen nineteen".split(),
        range(20),
        strict=True,
    )
)
_TENS = dict(
    zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True)  # noqa: SIM905
)
MAGNITUDES = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_SMALL_ORDINALS = dict(
    zip(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "  # noqa: SIM905
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split(),
        range(1, 21),
        strict=True,
    )
)
_TEN_ORDINALS = {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "hundredth": 100}
ORDINALS = _SMALL_ORDINALS | _TEN_ORDINALS
_PARTS = {
    "half": Fraction(1, 2),
    "halves": Fraction(1, 2),
    "quarter": Fraction(1, 4),
    "quarters": Fraction(1, 4),
    **{f"{word}{plural}": Fraction(1, n) for word, n in _SMALL_ORDINALS.items() if n > 2 for plural in ("", "s")},  # noqa: PLR2004 -- thirds and smaller
}
_FACTORS = {"twice": 2, "double": 2, "doubled": 2, "doubles": 2, "triple": 3, "tripled": 3, "thrice": 3}
_NUMERAL = "|".join([*_UNITS, *_TENS])
_ANY = "|".join([*_UNITS, *_TENS, *MAGNITUDES])
_LARGE = "|".join(MAGNITUDES)
_LINK = r"(?:[\s-]+|(?<=hundred)\s+and\s+|(?<=thousand)\s+and\s+|(?<=million)\s+and\s+)"
_CARDINAL = re.compile(
    rf"\b(?:(?:a|half a)\s+(?:{_LARGE})s?|(?:{_NUMERAL}))\b(?:{_LINK}(?:{_ANY})\b)*"
    rf"(?:\s+and\s+a\s+half\b(?:\s+(?:{_LARGE})\b)?)?",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    rf"\b(?:(?P<count>{_NUMERAL}|an?)[\s-]+)?(?P<part>{'|'.join(sorted(_PARTS, key=len, reverse=True))})\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})-)?(?P<word>{'|'.join(ORDINALS)})\b|\b(?P<digits>\d+)(?:st|nd|rd|th)\b",
    re.IGNORECASE,
)
_FACTOR = re.compile(rf"\b(?:{'|'.join(_FACTORS)})\b", re.IGNORECASE)
# Elsewhere, "first" orders a narration: "First, the file is written."
_BEFORE_FIRST = re.compile(
    r"(?:\b(?:the|a|his|her|its|their|our|my|came|finished|ranked|was|is)|['\u2019]s?)\s+$", re.IGNORECASE
)
# In these places "quarter" is a unit of time.
_NO_FRACTION = re.compile(r"\s*(?:of\s+(?:the\s+)?(?:year|\d{4}))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NumberWords:
    """A number that is written as words, or an ordinal.

    Attributes:
        start, end: Its range in the text.
        kind: ``"cardinal"``, ``"fraction"``, ``"ordinal"`` or ``"factor"``.
    """

    value: Fraction
    start: int
    end: int
    kind: str


def number_words(text: str) -> list[NumberWords]:
    """Return the numbers in words in a text, which do not overlap, in order."""
    found: list[NumberWords] = []
    for candidate in sorted(_candidates(text), key=lambda each: (each.start, -each.end)):
        if not found or candidate.start >= found[-1].end:
            found.append(candidate)
    return found


def _candidates(text: str) -> Iterator[NumberWords]:
    yield from _fractions(text)
    for match in _CARDINAL.finditer(text):
        yield NumberWords(_cardinal(match.group()), match.start(), match.end(), "cardinal")
    for match in _ORDINAL.finditer(text):
        if match.group().casefold() == "first" and not _BEFORE_FIRST.search(text[: match.start()]):
            continue
        if match["digits"]:
            ordinal = int(match["digits"])
        else:
            ordinal = _TENS.get((match["tens"] or "").casefold(), 0) + ORDINALS[match["word"].casefold()]
        yield NumberWords(Fraction(ordinal), match.start(), match.end(), "ordinal")
    for match in _FACTOR.finditer(text):
        yield NumberWords(Fraction(_FACTORS[match.group().casefold()]), match.start(), match.end(), "factor")


def _fractions(text: str) -> Iterator[NumberWords]:
    for match in _FRACTION.finditer(text):
        count, part = (match["count"] or "").casefold(), match["part"].casefold()
        if part.endswith(("half", "halves", "quarter", "quarters")) or count:
            if part.startswith("quarter") and not count:
                continue
            if _NO_FRACTION.match(text, match.end()) or (
                count in {"a", "an"} and part not in {"half", "quarter", "third"}
            ):
                continue
            if re.match(r"\s+an?\s+(?:million|dozen|billion|thousand|hundred)", text[match.end() :]):
                continue  # "half a million" is read as a cardinal
            value = _PARTS[part] * (_UNITS | _TENS).get(count, 1)
            yield NumberWords(value, match.start(), match.end(), "fraction")


def _cardinal(phrase: str) -> Fraction:
    total = current = Fraction(0)
    for word in re.split(r"[\s-]+", phrase.casefold()):
        singular = word.removesuffix("s") if word.removesuffix("s") in MAGNITUDES else word
        if word in {"a", "and"}:
            continue
        if word == "half":
            current += Fraction(1, 2)
        elif singular in MAGNITUDES:
            magnitude = MAGNITUDES[singular]
            if magnitude < 1000:  # noqa: PLR2004 -- hundreds and dozens are multiplied within a group of three digits
                current = (current or Fraction(1)) * magnitude
            else:
                total, current = total + (current or Fraction(1)) * magnitude, Fraction(0)
        else:
            current += _UNITS.get(word, _TENS.get(word, 0))
    return total + current
