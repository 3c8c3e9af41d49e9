"""Finds dates and times of day in a text, and decides whether one text states a date of another."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_BY_NAME = {name: at for at, name in enumerate(_MONTHS, 1)} | {name[:3]: at for at, name in enumerate(_MONTHS, 1)}
_BY_NAME["sept"] = 9
_MONTH = rf"(?P<month>{'|'.join(sorted(_BY_NAME, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_DAY_WORDS = r"(?:on\s+)?(?:the\s+)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-{_DAY})?(?![\d-])",
        rf"\b{_YEAR}/(?P<number>\d\d)/{_DAY}\b",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}\b",
        rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b",
        rf"\b{_MONTH}(?:,|\s+of)?\s+{_YEAR}\b",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}",
        rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}\b(?![.,:]?\d)",
        rf"\b(?P<first>[0-3]?\d)[/.](?P<second>[0-3]?\d)[/.]{_YEAR}\b",
        r"\b(?P<decade>[12]\d\d)0s\b",
        r"\b(?P<century>\d\d?)(?:st|nd|rd|th)\s+century\b",
        rf"(?<![\w.,$€£-]){_YEAR}(?![\w%]|[.,]\d|\s*(?:per\s?cent|%|km|kg|people|bytes|metres|meters|miles|users))",
    )
)
_LONE_MONTH = re.compile(
    r"\b(?:(?:in|of|since|until|by|last|next|during|from|to|through|between|and|early|late|mid|every|each)[\s-]+)"
    rf"{_MONTH}",
    re.IGNORECASE,
)
_CENTURIES = {
    f"{word} century": number
    for number, word in enumerate(
        "eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth "  # noqa: SIM905
        "twenty-first".split(),
        11,
    )
}
_CENTURY_WORDS = re.compile(rf"\b(?:{'|'.join(_CENTURIES)})\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-3])(?:[:.](?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?m\b\.?|\b(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)\b",
    re.IGNORECASE,
)
_NAMED_TIMES = {"noon": 12 * 60, "midday": 12 * 60, "midnight": 0}
_NAMED_TIME = re.compile(r"\b(?:noon|midday|midnight)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedDate:
    """A date or a part of one, as a text states it. None stands for what it does not state.

    Attributes:
        text: The date as it is written.
        decade: The first year of a decade, such as 1990.
        century: The number of a century, such as 19.
        minute: A time of day, in minutes after midnight.
        start, end: The range in the text.
    """

    text: str
    start: int
    end: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    decade: int | None = None
    century: int | None = None
    minute: int | None = None


def dates_of(text: str) -> list[StatedDate]:
    """Return the dates and times of day in a text, which do not overlap."""
    found: list[StatedDate] = []
    for date in _candidates(text):
        if not any(each.start < date.end and date.start < each.end for each in found):
            found.append(date)
    return found


def without(text: str, dates: Sequence[StatedDate]) -> str:
    """Return a text with spaces in place of the dates, so that their numbers are not read as quantities."""
    for each in dates:
        text = text[: each.start] + " " * (each.end - each.start) + text[each.end :]
    return text


def states_date(passage: Sequence[StatedDate], claimed: StatedDate) -> bool:
    """Return whether a passage states a date of a claim: each part of it that the claim states, in one date."""
    return any(_covers(each, claimed) for each in passage)


def alike(stated: StatedDate, claimed: StatedDate) -> bool:
    """Return whether two dates state the same parts, such as a year, so that they can be equal or different."""
    return any(
        getattr(stated, part) is not None and getattr(claimed, part) is not None
        for part in ("year", "month", "decade", "century", "minute")
    )


def _covers(stated: StatedDate, claimed: StatedDate) -> bool:
    if claimed.minute is not None:
        return stated.minute == claimed.minute
    if claimed.decade is not None:
        return claimed.decade in {stated.decade, stated.year // 10 * 10 if stated.year is not None else None}
    if claimed.century is not None:
        years = [each for each in (stated.year, stated.decade) if each is not None]
        return stated.century == claimed.century or any(year // 100 + 1 == claimed.century for year in years)
    if claimed.day is not None and {claimed.day, claimed.month} == {stated.day, stated.month} and "/" in stated.text:
        return claimed.year in {None, stated.year}  # day and month of such a date may be in either order
    parts = ((claimed.year, stated.year), (claimed.month, stated.month), (claimed.day, stated.day))
    return all(wanted is None or wanted == given for wanted, given in parts)


def _candidates(text: str) -> Iterator[StatedDate]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            date = _read(match)
            if date is not None:
                yield date
    for match in _LONE_MONTH.finditer(text):
        month = _BY_NAME[match["month"].casefold().rstrip(".")]
        if match["month"][0].isupper():
            yield StatedDate(match["month"], match.start("month"), match.end("month"), month=month)
    for match in _CENTURY_WORDS.finditer(text):
        yield StatedDate(match.group(), match.start(), match.end(), century=_CENTURIES[match.group().casefold()])
    for match in _CLOCK.finditer(text):
        yield StatedDate(match.group(), match.start(), match.end(), minute=_minute(match))
    for match in _NAMED_TIME.finditer(text):
        yield StatedDate(match.group(), match.start(), match.end(), minute=_NAMED_TIMES[match.group().casefold()])


def _read(match: re.Match[str]) -> StatedDate | None:
    """Return the date of a match; None if there is no such date."""
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else None
    day = int(parts["day"]) if parts.get("day") else None
    month = int(parts["number"]) if parts.get("number") else None
    if parts.get("month"):
        month = _BY_NAME[parts["month"].casefold().rstrip(".")]
        if not match["month"][0].isupper():
            return None
    if parts.get("first"):
        day, month = int(parts["first"]), int(parts["second"])
        if month > 12:  # noqa: PLR2004 -- the month comes first in American dates
            day, month = month, day
    decade = int(parts["decade"]) * 10 if parts.get("decade") else None
    century = int(parts["century"]) if parts.get("century") else None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):  # noqa: PLR2004
        return None
    text = match.group().strip()
    return StatedDate(text, match.start(), match.end(), year, month, day, decade, century)


def _minute(match: re.Match[str]) -> int:
    if match["hour24"]:
        return int(match["hour24"]) * 60 + int(match["minute24"])
    hour = int(match["hour"]) % 12 + (12 if match["half"].casefold() == "p" else 0)
    return hour * 60 + int(match["minute"] or 0)
