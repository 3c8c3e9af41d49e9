"""Finds the quantities in a text, and decides whether one text states a quantity of another."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from builtin_tools.web.research.verification.measures import PERCENT, Measure, measure_of
from builtin_tools.web.research.verification.normalization import TextRange
from builtin_tools.web.research.verification.number_words import MAGNITUDES, NumberWords, number_words
from builtin_tools.web.research.verification.word_list import words

Hedge = Literal["", "about", "above", "below"]

_DIGITS = re.compile(
    r"(?P<currency>US\$|[$€£¥])?\s?(?<![\w.])(?P<sign>[+\u2212-](?=\d))?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ \u00a0\u202f'\u2019]\d{3})+(?![\d])(?:[.,]\d+)?"
    r"|\d{1,3}(?:\.\d{3}){2,}|\d+,\d{1,2}(?!\d)|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<glued>[A-Za-z%°µ]+[²2]?)?(?!\.?\d)"
)
_AFTER = re.compile(
    r"[\s-]*(?P<magnitude>hundred|thousand|million|billion|trillion|dozen|bn|mn|m(?=\s+(?:people|users|dollars|euros))|k)?s?\b"
    r"[\s-]*(?P<unit>per\s?cent(?:age)?(?:\s+points?)?|percentage\s+points?|%|square\s+\w+|degrees\s+\w+|[A-Za-z°µ$€£]+[²]?)?",
    re.IGNORECASE,
)
_SHORT = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, **MAGNITUDES}
_WORD = re.compile(r"[^\W\d_]+")
_PART_OF = re.compile(r"[\s-]*(?:of\s+)?(?:an?\s+)?(?P<unit>[A-Za-z]+)")  # "half an hour", "quarter of a mile"
_BETWEEN = re.compile(r"\s*(?:to|and|or|by|-|\u2013|\u00d7|x)\s*")  # in "5 to 7 days", the unit is that of both numbers
_ABOUT = re.compile(
    r"\b(?:about|around|roughly|approximately|some|nearly|almost|close to|circa|ca\.?|an estimated)\s*$", re.IGNORECASE
)
_ABOVE = re.compile(r"\b(?:more than|over|above|upwards of|exceed(?:s|ed|ing)?|at least)\s*$", re.IGNORECASE)
_BELOW = re.compile(r"\b(?:less than|fewer than|under|below|at most|up to|no more than)\s*$", re.IGNORECASE)
_TOLERANCE = Fraction(1, 10)  # of a hedged number: "about 500" stands for 475 to 525, "over 570" for up to 627
# "15 tonnes more than before" and "by 15 tonnes" are differences.
_THAN = re.compile(r"\s+(?:\w+\s+){1,2}than\b")
_BY = re.compile(r"\bby\s*$", re.IGNORECASE)
_NOT_NOUNS = words("of the a an in on at by for to and or than per as is are was were with from that which it")
_STEM = 5  # characters that singular and plural forms of a noun share, mostly


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text, with what it counts or measures.

    Attributes:
        value: The number in the base unit of its dimension.
        text: The number as it is written.
        dimension: ``"length"``, ``"share"`` and others of `measures`; "" for a number without a unit.
        ordinal: Whether it is a position, such as "third".
        hedge: Whether the text gives it as approximate, as a lower bound, or as an upper bound.
        step: The value of its last digit that is not zero. A number is rounded to a multiple of it.
        nouns: The beginnings of the words that follow, which are probably what is counted.
        factor: The size of its unit in the base unit.
        relative: The word that makes it a difference, as in "15 tonnes more than" and, perhaps, "by 15 tonnes".
        start, end: The range in the text, with the unit.
    """

    value: Fraction
    text: str
    dimension: str = ""
    ordinal: bool = False
    hedge: Hedge = ""
    step: Fraction = Fraction(0)
    nouns: tuple[str, ...] = ()
    factor: Fraction = Fraction(1)
    relative: Literal["", "than", "by"] = ""
    start: int = 0
    end: int = 0


def quantities_of(text: str) -> list[Quantity]:
    """Return the quantities in a text. The word "one" alone is none, because it is usually a pronoun."""
    found: list[Quantity] = []
    taken: list[tuple[int, int]] = []
    for match in _DIGITS.finditer(text):
        quantity, end = _from_digits(text, match)
        found.append(quantity)
        taken.append((match.start(), end))
    for number in number_words(text):
        if any(start < number.end and number.start < end for start, end in taken):
            continue
        quantity = _from_words(text, number)
        if number.kind == "cardinal" and text[number.start : number.end].casefold() == "one" and not quantity.dimension:
            continue
        found.append(quantity)
    found.sort(key=lambda each: each.start)
    for at in range(len(found) - 1, 0, -1):
        found[at - 1] = _with_unit_of(found[at - 1], found[at], text)
    return found


def states(passage: Sequence[Quantity], claimed: Quantity) -> bool:
    """Return whether a passage states a quantity of a claim.

    The value must be the same after conversion of units, or a rounding of it that the claim makes visible by "about",
    "more than" or fewer digits of a large number. If the passage counts something else with this number, and what the
    claim counts with another number, it does not state it.
    """
    equal = [each for each in passage if comparable(each, claimed) and _agrees(each.value, claimed)]
    equal = [each for each in equal if claimed.relative or each.relative != "than"]
    if not equal:
        return False
    if claimed.dimension or claimed.ordinal or not claimed.nouns:
        return True
    if any(not each.nouns or _same_noun(each, claimed) for each in equal):
        return True
    return not any(_same_noun(each, claimed) for each in passage if each not in equal and not each.dimension)


def _same_noun(one: Quantity, other: Quantity) -> bool:
    """Return whether the first word after one number is among the words after the other."""
    return any(noun in other.nouns for noun in one.nouns[:1]) or any(noun in one.nouns for noun in other.nouns[:1])


def instead_of(passage: Sequence[Quantity], claimed: Quantity) -> bool:
    """Return whether a passage has another number where a claim has this one: of the same unit or the same thing."""
    return not states(passage, claimed) and any(
        comparable(each, claimed) and bool(claimed.dimension or _same_noun(each, claimed)) for each in passage
    )


def comparable(stated: Quantity, claimed: Quantity) -> bool:
    """Return whether two quantities measure the same, so that they can be equal or different."""
    if stated.ordinal != claimed.ordinal:
        return False
    if stated.dimension == claimed.dimension:
        return True
    # "0.5" and "50 %", and "half" and "50 %", are the same share.
    return {stated.dimension, claimed.dimension} == {"", "share"} and min(stated.value, claimed.value) < 1


def _agrees(value: Fraction, claimed: Quantity) -> bool:
    wanted = claimed.value
    if value == wanted:
        return True
    reach = max(claimed.step, abs(wanted) * _TOLERANCE)
    if claimed.hedge == "above":
        return wanted <= value <= wanted + reach
    if claimed.hedge == "below":
        return wanted - reach <= value <= wanted
    if claimed.hedge == "about":
        return abs(value - wanted) <= abs(wanted) * _TOLERANCE / 2 or _rounds(value, claimed)
    return claimed.value >= 1000 and _rounds(value, claimed) and claimed.step * 10 <= claimed.value  # noqa: PLR2004 -- "3.2 million" for 3,214,567


def _rounds(value: Fraction, claimed: Quantity) -> bool:
    return claimed.step > 0 and round(value / claimed.step) * claimed.step == claimed.value


def _from_digits(text: str, match: re.Match[str]) -> tuple[Quantity, int]:
    value = _value(match["number"])
    step = _step(match["number"])
    if match["sign"] in {"-", "\u2212"} and not re.search(r"[\w)]\s?$", text[: match.start()]):
        value = -value
    end, measure, ordinal = match.end(), None, False
    glued = match["glued"] or ""
    if glued.casefold() in {"st", "nd", "rd", "th"}:
        ordinal = True
    elif glued and (found := PERCENT if glued == "%" else measure_of(glued)) and glued != "m":
        measure = found
    elif glued.casefold() in _SHORT and (match["currency"] or glued.casefold() != "m"):
        value, step = value * _SHORT[glued.casefold()], step * _SHORT[glued.casefold()]
    elif glued == "m":
        measure = measure_of("m")
    after = _AFTER.match(text, end)
    if measure is None and not ordinal and after is not None and after.end() > end:
        if after["magnitude"]:
            size = _SHORT[after["magnitude"].casefold()]
            value, step, end = value * size, step * size, after.end("magnitude")
        measure = _unit(after["unit"])
        end = after.end("unit") if measure is not None else end
    if match["currency"]:
        measure = measure_of(match["currency"])
    return _quantity(text, TextRange(match.start(), end), value, step, measure, ordinal=ordinal), end


def _from_words(text: str, number: NumberWords) -> Quantity:
    after = _AFTER.match(text, number.end)
    measure = _unit(after["unit"]) if after is not None and number.kind in {"cardinal", "factor"} else None
    end = after.end("unit") if after is not None and measure is not None else number.end
    if number.kind == "fraction":
        measure = Measure("share", Fraction(1))
        part_of = _PART_OF.match(text, number.end)
        if part_of is not None and (whole := measure_of(part_of["unit"])) is not None:
            measure, end = whole, part_of.end()
    ordinal = number.kind == "ordinal"
    return _quantity(text, TextRange(number.start, end), number.value, Fraction(0), measure, ordinal=ordinal)


def _quantity(
    text: str, place: TextRange, value: Fraction, step: Fraction, measure: Measure | None, *, ordinal: bool
) -> Quantity:
    start, end = place.start, place.end
    factor = measure.factor if measure is not None else Fraction(1)
    dimension = measure.dimension if measure is not None else ""
    nouns = [word.casefold()[:_STEM] for word in _WORD.findall(text[end : end + 40])[:2]]
    counted = tuple(word for word in nouns if word not in _NOT_NOUNS)
    hedge = _hedge(text[:start])
    return Quantity(
        value * factor,
        text[start:end].strip(),
        dimension,
        ordinal,
        hedge,
        step * factor,
        counted,
        factor,
        relative="than" if _THAN.match(text, end) else "by" if _BY.search(text[:start]) else "",
        start=start,
        end=end,
    )


def _with_unit_of(first: Quantity, second: Quantity, text: str) -> Quantity:
    """Return the first number of a range with the unit of the second one."""
    alone = not first.dimension and not first.ordinal and second.dimension
    if not alone or _BETWEEN.fullmatch(text[first.end : second.start]) is None:
        return first
    factor = second.factor
    return replace(
        first, value=first.value * factor, step=first.step * factor, dimension=second.dimension, nouns=second.nouns
    )


def _unit(word: str | None) -> Measure | None:
    if not word:
        return None
    plain = " ".join(word.casefold().split())
    if plain.startswith(("percent", "per cent", "%")):
        return PERCENT
    kind, _, name = plain.partition(" ")
    if kind == "square":
        base = measure_of(name)
        return Measure("area", base.factor**2) if base is not None and base.dimension == "length" else None
    if kind == "degrees" and name:
        return measure_of(name) or measure_of("degree")
    return measure_of(plain) if not plain.endswith("in") else None


def _hedge(before: str) -> Hedge:
    if _ABOVE.search(before):
        return "above"
    if _BELOW.search(before):
        return "below"
    return "about" if _ABOUT.search(before) else ""


def _value(written: str) -> Fraction:
    plain = re.sub(r"[ \u00a0\u202f'\u2019]", "", written)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}", plain):
        plain = plain.replace(".", "")
    mantissa, _, exponent = plain.replace(",", ".").partition("e")
    return Fraction(mantissa) * Fraction(10) ** max(-400, min(400, int(exponent or 0)))


def _step(written: str) -> Fraction:
    value = _value(written)
    if not value:
        return Fraction(0)
    step = (
        Fraction(1, value.denominator) if value.denominator == 1 else Fraction(1, 10 ** len(written.partition(".")[2]))
    )
    while value.denominator == 1 and value % (step * 10) == 0:
        step *= 10
    return step
