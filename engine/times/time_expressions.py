"""Resolves time expressions such as "yesterday morning" to half-open ranges in a user's time zone.

Regular expressions find the time expressions. dateparser (https://dateparser.readthedocs.io) parses dates to points in
time, which this module extends to ranges: a day, a week, a morning. Days are added in local time and hours in UTC, so
that both are right when clocks change.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

Prefer = Literal["past", "future"]
_Unit = Literal["hour", "day", "week", "month", "year", "weekend"]

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WORDS = {"a": 1, "an": 1, "a couple of": 2, "a few": 3, "several": 3, **{n: at for at, n in enumerate(_NUMBERS, 1)}}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PARTS = {  # hours of the local day; the night ends on the next day
    "morning": (5, 12),
    "noon": (12, 13),
    "midday": (12, 13),
    "lunchtime": (12, 14),
    "afternoon": (12, 18),
    "evening": (18, 23),
    "night": (20, 29),
}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first of the three months

_N = rf"(?:\d{{1,4}}|a couple of|a few|several|an?|{'|'.join(_NUMBERS)})"
_U = r"(?:second|minute|hour|day|week|fortnight|month|year|weekend)s?"
_ONE = r"(?:hour|day|week|month|year|weekend)"
_W = rf"(?:{'|'.join(_WEEKDAYS)})"
_M = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|"
    r"aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_Y = r"(?:19|20)\d\d"
_P = rf"(?:{'|'.join(_PARTS)})"
_S = rf"(?:{'|'.join(_SEASONS)})"
_D = r"\d{1,2}(?:st|nd|rd|th)?"
_CLOCK = r"(?:at )?(?:\d{1,2}(?::\d\d)? ?[ap]\.?m\b\.?|\d{1,2}:\d\d|(?<=at )\d{1,2}\b|noon|midday|midnight)"
_BEFORE_MONTHS = ("in", "since", "during", "until", "before", "after", "from", "to", "and", "between")
_AFTER = "".join(f"(?<={word} )|" for word in _BEFORE_MONTHS)[:-1]
_BASE = "|".join(
    (
        "today|yesterday|tomorrow|tonight|the day before yesterday|the day after tomorrow",
        rf"(?:half an hour|{_N} {_U}) ago",
        rf"(?:the )?(?:last|past|previous|next|coming) {_N} {_U}",
        r"the (?:week|weekend|month|year) before last",
        rf"(?:the )?(?:last|this|next|past|previous|coming) (?:{_ONE}|{_W}|{_M}|{_S}|{_P})(?!\w)",
        rf"the week of (?:{_M} {_D}|{_D} (?:of )?{_M})(?:,? {_Y})?",
        r"\d{4}-\d\d-\d\d",
        rf"\d{{1,2}}/\d{{1,2}}/(?:{_Y}|\d\d)|\d{{1,2}}\.\d{{1,2}}\.{_Y}",
        rf"(?:the )?{_D} (?:of )?{_M}(?!\w)(?:,? {_Y})?",
        rf"{_M} {_D}(?!\w)(?:,? {_Y})?",
        rf"{_M},? (?:of )?{_Y}",
        rf"(?:q[1-4]|{_S}) (?:of )?{_Y}",
        rf"(?:{_AFTER})(?:{_M}(?!\w)|{_Y}(?!\w))",
        _W,
    )
)
_MOMENT = rf"(?:{_BASE})(?:'s)?(?:,? (?:in the )?{_P}(?!\w))?(?:,? {_CLOCK})?"
_EXPRESSION = re.compile(
    rf"(?<![\w-])(?:between (?P<low>{_MOMENT}) and (?P<high>{_MOMENT})"
    rf"|from (?P<first>{_MOMENT}) (?:to|until|till|through) (?P<last>{_MOMENT})"
    rf"|(?:(?P<word>since|before|after|until|till|from|by|in|on|at|during) )?(?P<moment>{_MOMENT}))(?![\w-])"
)
_WHOLE = re.compile(rf"(?:in\ )?(?P<month>{_M})|(?:in\ )?(?P<year>{_Y})")
_CLOCK_END = re.compile(rf",? ?({_CLOCK})$")
_PART_END = re.compile(rf"(?:^|,? )(?:in the )?({_P})$")
_HOUR = timedelta(hours=1)
_LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl"]  # each language takes time to load


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open time range in UTC. None is an open end.

    Attributes:
        text: The expression that was resolved to this range.
    """

    start: datetime | None
    end: datetime | None
    text: str

    def contains(self, moment: datetime) -> bool:
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


def resolve(text: str, now: datetime, zone: ZoneInfo, prefer: Prefer = "past") -> TimeRange | None:
    """Resolve a time expression to a range; None if it is not understood.

    Args:
        text: The expression, such as ``"this Friday 6pm"``, or a date in ISO 8601.
        now: The time at which it is said.
        zone: The user's time zone.
        prefer: Whether an ambiguous day such as "Monday" is in the past or the future.
    """
    clean = " ".join(text.lower().split()).strip(" .,?!")
    exact = _exact(text.strip(), zone)
    if exact is not None:
        return TimeRange(*exact, text)
    whole = _WHOLE.fullmatch(clean)
    if whole is not None:
        clean = f"in {whole['month'] or whole['year']}"
    elif re.fullmatch(_CLOCK, clean):
        clean = f"today {clean}"
    found = _EXPRESSION.fullmatch(clean)
    resolver = _Resolver(now, zone, prefer)
    if found is not None:
        return resolver.range_of(found, text)
    parsed = resolver.read(clean, _LANGUAGES)
    return None if parsed is None else resolver.utc(*parsed, text)


def find_ranges(text: str, now: datetime, zone: ZoneInfo, prefer: Prefer = "past") -> list[TimeRange]:
    """Resolve the time expressions in a text, in the order of the text."""
    lower = text.lower() if len(text.lower()) == len(text) else text
    resolver = _Resolver(now, zone, prefer)
    found = (resolver.range_of(each, text[each.start() : each.end()]) for each in _EXPRESSION.finditer(lower))
    return [each for each in found if each is not None]


def _exact(text: str, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
    """Return the range of an ISO 8601 date or time: the day, or the hour that begins at the time."""
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        return None
    local = start if start.tzinfo is not None else start.replace(tzinfo=zone)
    if len(text) <= len("2024-03-05"):
        return local.astimezone(UTC), (start + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    return local.astimezone(UTC), local.astimezone(UTC) + _HOUR


class _Resolver:
    """Resolves expressions relative to one time in one time zone."""

    def __init__(self, now: datetime, zone: ZoneInfo, prefer: Prefer) -> None:
        self._now = now.astimezone(UTC)
        self._zone = zone
        self._local = now.astimezone(zone).replace(tzinfo=None)
        self._today = self._local.date()
        self._prefer = prefer

    def range_of(self, found: re.Match[str], text: str) -> TimeRange | None:
        """Return the range of a match of `_EXPRESSION`."""
        low, high = found["low"] or found["first"], found["high"] or found["last"]
        if low is not None:
            year = re.search(_Y, high)
            if year is not None and not re.search(_Y, low):
                low = f"{low} {year[0]}"
            one, two = self._moment(low), self._moment(high)
            return None if one is None or two is None else TimeRange(one[0], max(one[1], two[1]), text)
        moment = self._moment(found["moment"])
        if moment is None:
            return None
        start, end = moment
        bounds: dict[str | None, tuple[datetime | None, datetime | None]] = {
            **dict.fromkeys(("since", "from"), (start, None)),
            **dict.fromkeys(("until", "till", "by"), (None, end)),
            "after": (end, None),
            "before": (None, start),
        }
        return TimeRange(*bounds.get(found["word"], moment), text)

    def utc(self, start: datetime, end: datetime, text: str) -> TimeRange:
        """Convert a range of local times to UTC."""
        return TimeRange(self._to_utc(start), self._to_utc(end), text)

    def read(self, text: str, languages: list[str]) -> tuple[datetime, datetime] | None:
        """Return the local start and end of the date that dateparser finds in a text; None if it finds none."""
        from dateparser.date import DateDataParser  # noqa: PLC0415 -- takes long to import

        settings = {
            "RELATIVE_BASE": self._local,
            "PREFER_DATES_FROM": self._prefer,
            "PREFER_DAY_OF_MONTH": "first",
            "PREFER_MONTH_OF_YEAR": "first",
            "RETURN_TIME_AS_PERIOD": True,
        }
        found = DateDataParser(languages=languages, settings=settings).get_date_data(text)
        if found.date_obj is None:
            return None
        point: datetime = found.date_obj.replace(tzinfo=None)
        if found.period == "time":
            return point, point + _HOUR
        unit: _Unit = found.period if found.period in ("week", "month", "year") else "day"
        return _unit(point.date(), unit)

    def _moment(self, text: str) -> tuple[datetime, datetime] | None:
        """Return the UTC range of an expression for one moment; None if it is not understood."""
        ago = re.fullmatch(rf"(half an|{_N}) (second|minute|hour)s? ago", text)
        if ago is not None:
            amount = 0.5 if ago[1] == "half an" else _number(ago[1])
            middle = self._now - timedelta(**{f"{ago[2]}s": amount})
            return middle - _HOUR / 2, min(middle + _HOUR / 2, self._now)
        rolling = re.fullmatch(rf"(?:the )?(last|past|previous|next|coming) ({_N}) ({_U})", text)
        if rolling is not None:
            return self._rolling(rolling[1] in ("next", "coming"), _number(rolling[2]), rolling[3].removesuffix("s"))
        local = self._day_and_time(text.removesuffix("'s"))
        return None if local is None else (self._to_utc(local[0]), self._to_utc(local[1]))

    def _rolling(self, ahead: bool, amount: float, unit: str) -> tuple[datetime, datetime]:
        """Return the range of the last or next `amount` units, ending or starting now."""
        if unit in ("second", "minute", "hour"):
            distance = timedelta(**{f"{unit}s": amount})
            return (self._now, self._now + distance) if ahead else (self._now - distance, self._now)
        sign = 1 if ahead else -1
        if unit in ("month", "year"):
            other = _shifted(self._today, sign * int(amount) * (12 if unit == "year" else 1))
            moved = datetime.combine(other, self._local.time())
        else:
            moved = self._local + sign * timedelta(
                days=amount * {"week": 7, "weekend": 7, "fortnight": 14}.get(unit, 1)
            )
        return (self._now, self._to_utc(moved)) if ahead else (self._to_utc(moved), self._now)

    def _day_and_time(self, text: str) -> tuple[datetime, datetime] | None:
        """Return the local range of a day, of a part of a day, or of an hour."""
        text = text.strip()
        if text in ("tonight", "last night"):
            day = self._today if text == "tonight" else self._today - timedelta(days=1)
            return _hours(day, 18, 29)
        clock = _CLOCK_END.search(text)
        if clock is not None and (clock.start() > 0 or not text[0].isdigit()):
            day_text, words = text[: clock.start()].strip(" ,") or "today", clock[1]
            part = _PART_END.search(day_text)
            day_text = day_text[: part.start()].strip(" ,") if part is not None else day_text
            base = self._day(_without_this(day_text, "today"))
            hour = _clock(words, part[1] if part is not None else "")
            if base is None or hour is None:
                return None
            start = datetime.combine(base[0].date(), hour)
            return start, start + _HOUR
        part = _PART_END.search(text)
        if part is not None:
            base = self._day(_without_this(text[: part.start()].strip(" ,"), "today"))
            return None if base is None else _hours(base[0].date(), *_PARTS[part[1]])
        return self._day(text)

    def _day(self, text: str) -> tuple[datetime, datetime] | None:  # noqa: C901, PLR0911 -- one return for each form
        """Return the local range of a day, week, month or year."""
        text = text.removeprefix("the ") if not text.startswith(("the day", "the week of")) else text
        fixed = {
            "today": 0,
            "yesterday": -1,
            "tomorrow": 1,
            "the day before yesterday": -2,
            "the day after tomorrow": 2,
        }
        if text in fixed:
            return _unit(self._today + timedelta(days=fixed[text]), "day")
        before_last = re.fullmatch(r"(\w+) before last", text)
        if before_last is not None:
            return self._calendar(before_last[1], -2)
        relative = re.fullmatch(r"(last|past|previous|this|next|coming) (\w+)", text)
        if relative is not None:
            steps = {"this": 0, "next": 1, "coming": 1}.get(relative[1], -1)
            return self._calendar(relative[2], steps)
        ago = re.fullmatch(rf"({_N}) (day|week|fortnight|month|year|weekend)s? ago", text)
        if ago is not None:
            amount, unit = int(_number(ago[1])), ago[2]
            if unit in ("day", "fortnight"):
                days = amount * (1 if unit == "day" else 14)
                found = self._today - timedelta(days=days)
                return _unit(found, "day" if unit == "day" else "week")
            return self._calendar(unit, -amount)
        quarter = re.fullmatch(rf"q([1-4]) (?:of )?({_Y})", text)
        if quarter is not None:
            return _months(date(int(quarter[2]), 3 * int(quarter[1]) - 2, 1), 3)
        if text in _WEEKDAYS:
            return self._weekday(text, self._prefer)
        season = re.fullmatch(rf"({_S}) (?:of )?({_Y})", text)
        if season is not None:
            return _months(date(int(season[2]), _SEASONS[season[1]], 1), 3)
        if re.fullmatch(_Y, text):
            return _unit(date(int(text), 1, 1), "year")
        if re.fullmatch(_M, text):
            return self._month(text, 0 if self._prefer == "future" else -1, inclusive=True)
        week_of = text.startswith("the week of ")
        found_date = self.read(text.removeprefix("the week of ").replace(" of ", " "), ["en"])
        return _unit(found_date[0].date(), "week") if week_of and found_date is not None else found_date

    def _calendar(self, word: str, steps: int) -> tuple[datetime, datetime] | None:  # noqa: PLR0911 -- as above
        """Return the range of the calendar unit, weekday, month or season that is `steps` away from the current one."""
        if word in ("day", "hour"):
            return _unit(self._today + timedelta(days=steps), "day")
        if word == "week":
            return _unit(self._today + timedelta(weeks=steps), "week")
        if word == "weekend":
            start, end = _unit(self._today + timedelta(weeks=steps), "week")
            return start + timedelta(days=5), end
        if word in ("month", "year"):
            return _unit(_shifted(self._today, steps * (12 if word == "year" else 1)), word)  # type: ignore[arg-type]
        if word in _WEEKDAYS:
            if steps == 0:
                return self._weekday(word, "future")
            return self._weekday(word, "past" if steps < 0 else "future", today=False)
        if word in _SEASONS:
            year = self._today.year
            starts = sorted(date(year + more, _SEASONS[word], 1) for more in (-2, -1, 0, 1))
            if steps < 0:
                return _months([each for each in starts if _shifted(each, 3) <= self._today][-1], 3)
            return _months([each for each in starts if _shifted(each, 3) > self._today][steps], 3)
        if re.fullmatch(_M, word):
            return self._month(word, steps, inclusive=False)
        return None

    def _weekday(self, name: str, towards: Prefer, *, today: bool = True) -> tuple[datetime, datetime]:
        distance = (_WEEKDAYS.index(name) - self._today.weekday()) % 7
        if towards == "past" and (distance or not today):
            distance -= 7
        elif towards == "future" and not distance and not today:
            distance = 7
        return _unit(self._today + timedelta(days=distance), "day")

    def _month(self, name: str, steps: int, *, inclusive: bool) -> tuple[datetime, datetime]:
        """Return the range of a named month: of this year, or the last or next month with this name."""
        number = next(at for at, month in enumerate(_MONTHS, 1) if month == name[:3])
        this = date(self._today.year, number, 1)
        current = number == self._today.month
        ahead = number < self._today.month or (current and not inclusive)
        if steps < 0 and (number > self._today.month or (current and not inclusive)):
            return _unit(this.replace(year=this.year - 1), "month")
        if ahead and (steps > 0 or (steps == 0 and inclusive)):
            return _unit(this.replace(year=this.year + 1), "month")
        return _unit(this, "month")

    def _to_utc(self, local: datetime) -> datetime:
        return local.replace(tzinfo=self._zone).astimezone(UTC)


def _unit(day: date, unit: _Unit) -> tuple[datetime, datetime]:
    """Return the local range of the day, the week (from Monday), the month or the year that contains a day."""
    if unit == "month":
        return _months(day.replace(day=1), 1)
    if unit == "year":
        return _months(day.replace(month=1, day=1), 12)
    first = day - timedelta(days=day.weekday()) if unit == "week" else day
    start = datetime.combine(first, time())
    return start, start + timedelta(days=7 if unit == "week" else 1)


def _months(first: date, count: int) -> tuple[datetime, datetime]:
    return datetime.combine(first, time()), datetime.combine(_shifted(first, count), time())


def _shifted(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of that month if the month is too short."""
    number = day.year * 12 + day.month - 1 + months
    year, month = divmod(number, 12)
    last = (date(year + (month == 11), (month + 1) % 12 + 1, 1) - timedelta(days=1)).day  # noqa: PLR2004 -- December
    return date(year, month + 1, min(day.day, last))


def _hours(day: date, first: int, last: int) -> tuple[datetime, datetime]:
    start = datetime.combine(day, time())
    return start + timedelta(hours=first), start + timedelta(hours=last)


def _clock(text: str, part: str) -> time | None:
    """Parse a time of day. A part of the day such as ``"evening"`` decides between a.m. and p.m."""
    text = text.removeprefix("at ").replace(".", "").replace(" ", "")
    if text in ("noon", "midday", "midnight"):
        return time(0 if text == "midnight" else 12)
    found = re.fullmatch(r"(\d{1,2})(?::(\d\d))?([ap]m)?", text)
    if found is None:
        return None
    hour, minute = int(found[1]), int(found[2] or 0)
    afternoon = found[3] == "pm" or (found[3] is None and part in ("afternoon", "evening", "night"))
    if afternoon and hour < 12:  # noqa: PLR2004 -- a clock has twelve hours
        hour += 12
    elif found[3] == "am" and hour == 12:  # noqa: PLR2004 -- same
        hour = 0
    return time(hour, minute) if hour < 24 and minute < 60 else None  # noqa: PLR2004 -- same


def _number(text: str) -> float:
    return float(text) if text.isdigit() else float(_WORDS[text])


def _without_this(text: str, otherwise: str) -> str:
    """Return the words that name the day in an expression such as "Monday morning".

    Args:
        text: The words in front of the part of the day, such as "Monday" or "this".
        otherwise: The result if these words name no day: if they are "" or "this".
    """
    return otherwise if text in ("", "this") else text
