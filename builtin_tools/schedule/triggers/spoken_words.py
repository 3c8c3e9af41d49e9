"""The words in which people state schedules: numbers, units, days, months and times of day."""

import re
from datetime import time

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {"a": 1.0, "an": 1.0, "other": 2.0, "second": 2.0, "half": 0.5, "half a": 0.5, "half an": 0.5} | {
    word: float(count) for count, word in enumerate(_NUMBERS, 1)
}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_PARTS = {"morning": time(8), "noon": time(12), "midday": time(12), "afternoon": time(15), "evening": time(19)}

COUNT = rf"(?:\d{{1,6}}(?:\.\d+)?|half an?|half|other|an?|{'|'.join(_NUMBERS)})"
UNIT = r"(?:seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)"
WEEKDAY_NAME = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
)
WEEKDAY = rf"{WEEKDAY_NAME}s?"
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|"
    r"aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
DAY_NUMBER = r"(?:\d{1,2}(?:st|nd|rd|th)?)"
PART = rf"(?:{'|'.join(_PARTS)})"
CLOCK = r"(?:\d{1,2}(?::\d\d){0,2} ?(?:[ap]m)?|noon|midday|midnight)"
_CLOCK_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))? ?([ap]m)?")
_NOON = 12


def count_of(text: str) -> float:
    """Return the number that a count such as ``"15"`` or ``"half an"`` means."""
    return float(text) if text[0].isdigit() else _COUNTS[text]


def unit_of(text: str) -> str:
    """Return the unit, such as ``"minute"``, that a match of `UNIT` means."""
    return next(unit for unit in SECONDS if unit[0] == text[0])


def weekday_of(text: str) -> int:
    """Return the number of a weekday as in cron: 0 for Sunday, 1 for Monday."""
    return next(at for at, name in enumerate(WEEKDAYS, 1) if name.startswith(text[:3])) % 7


def month_of(text: str) -> int:
    return MONTHS.index(text[:3]) + 1


def part_of(text: str) -> time:
    """Return the time of day that a part of the day such as ``"morning"`` stands for."""
    return _PARTS[text]


def clock_of(text: str, part: str = "") -> time | None:
    """Return a time of day; None if there is no such time.

    Args:
        text: A match of `CLOCK`.
        part: The part of the day, such as ``"evening"``, which decides between a.m. and p.m.; "" if none is named.
    """
    if text in ("noon", "midday", "midnight"):
        return time(0 if text == "midnight" else _NOON)
    found = _CLOCK_TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if found[4] is not None and not 1 <= hour <= _NOON:
        return None
    afternoon = found[4] == "pm" or (found[4] is None and part in ("afternoon", "evening"))
    if afternoon and hour < _NOON:
        hour += _NOON
    elif found[4] == "am" and hour == _NOON:
        hour = 0
    try:
        return time(hour, minute, second)
    except ValueError:
        return None
