"""Reads schedules: cron fields, intervals, single times in ISO 8601, and spoken schedules such as "every weekday at 9".

Repeated schedules become cron expressions, so that one set of rules decides what happens when clocks change. Single
times are read by `engine.times.time_expressions`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from builtin_tools.schedule.triggers import spoken_words as words
from builtin_tools.schedule.triggers.cron import CronFieldsError, CronTrigger, cron_fields
from builtin_tools.schedule.triggers.trigger import AnyTrigger, DayTrigger, IntervalTrigger, OnceTrigger
from builtin_tools.schedule.triggers.wall_time import SECOND, first_instant, instant_of
from engine.times.time_expressions import resolve

_CRON = re.compile(r"@\w+|[\d*](?:[\w*/,#-]*)(?: [\w*/,#?-]+){4,5}")
_TIMES = rf"(?P<times>{words.CLOCK}(?:(?:,| and|, and) (?:at )?{words.CLOCK})*)"
_AT = rf"(?:(?:,? in the| every)? (?P<part>{words.PART}))?(?: at {_TIMES})?"
_AMOUNT = rf"({words.COUNT}) ?({words.UNIT})(?![a-z])"
_DURATION = re.compile(rf"{_AMOUNT}(?:,? ?{_AMOUNT})*")
_EVERY = re.compile(
    rf"every (?:(?P<count>{words.COUNT}) ?)?(?P<unit>{words.UNIT})(?: on (?P<day>{words.WEEKDAY}))?{_AT}"
)
_NAMED = {"secondly": "every second", "minutely": "every minute", "hourly": "every hour", "daily": "every day"} | {
    f"every {part}": f"every day in the {part}" for part in ("morning", "afternoon", "evening")
}
_LIST = rf"{words.WEEKDAY}(?:(?:, and|,| and| or) {words.WEEKDAY})*"
_WEEKDAYS = re.compile(rf"(?:every |each |on |weekly on )?(?P<days>weekdays?|weekends?|{_LIST}){_AT}")
_PLURAL = re.compile(rf"(?:on )?(?:weekdays|weekends|{words.WEEKDAY_NAME}s)\b")
_DATES = rf"{words.DAY_NUMBER}(?:(?:, and|,| and) (?:the )?{words.DAY_NUMBER})*|last day|last weekday"
_MONTHLY = re.compile(
    rf"(?:every month|monthly)(?: on)? (?:the )?(?P<dates>{_DATES}){_AT}"
    rf"|(?:on )?(?:the )?(?P<first_dates>{_DATES}) of (?:every|each) month(?P<rest>.*)"
)
_NTH = re.compile(
    rf"(?:every|on the|the)? ?(?P<nth>last|{'|'.join(words.ORDINALS)}) (?P<day>{words.WEEKDAY})"
    rf" of (?:the|every|each) month{_AT}"
)
_YEARLY = re.compile(
    rf"(?:every year|yearly|annually)(?: on)? (?:the )?(?:(?P<month>{words.MONTH}) (?P<date>{words.DAY_NUMBER})"
    rf"|(?P<date_first>{words.DAY_NUMBER}) (?:of )?(?P<month_second>{words.MONTH})){_AT}"
)
_AT_END = re.compile(_AT)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_WHOLE_DAY_UNITS = ("day", "week")


class ScheduleError(ValueError):
    """A schedule is not understood, or is in the past. The message says what to write instead."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A spoken schedule: the text, when it was said, and in which time zone."""

    text: str
    now: datetime
    zone: ZoneInfo

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def local(self) -> datetime:
        return self.now.astimezone(self.zone).replace(tzinfo=None, microsecond=0)


def read_schedule(text: str, now: datetime, zone: ZoneInfo) -> AnyTrigger:
    """Return the trigger that a schedule states.

    Args:
        text: The schedule.
        now: When it was said, as an aware time.
        zone: The time zone of the user.

    Raises:
        ScheduleError: The schedule is not understood, or is a single time in the past.
    """
    plain = " ".join(text.split()).strip(" .")
    if _CRON.fullmatch(plain):
        try:
            return CronTrigger((cron_fields(plain),), zone.key)
        except CronFieldsError as error:
            raise ScheduleError(f"{error}. The order is [second] minute hour day month weekday.") from None
    clean = re.sub(r"\b([ap])\.m\.?", r"\1m", plain.lower())
    said = _Said(_NAMED.get(clean, clean), now, zone)
    for name, meaning in _NAMED.items():
        if clean.startswith(f"{name} "):
            said = _Said(meaning + clean.removeprefix(name), now, zone)
    readers: tuple[Callable[[_Said], AnyTrigger | None], ...] = (_every, _weekdays, _nth, _monthly, _yearly, _after)
    for reader in readers:
        found = reader(said)
        if found is not None:
            return found
    return _once(plain, said)


def _every(said: _Said) -> AnyTrigger | None:
    """Read "every 15 minutes", "every day at 9" and "every 2 weeks on Monday at 9"."""
    found = _EVERY.fullmatch(said.text)
    if found is None:
        return None
    unit = words.unit_of(found["unit"])
    count = words.count_of(found["count"]) if found["count"] else 1.0
    times = _times(found["times"], found["part"])
    if not times and found["day"] is None:
        seconds = count * words.SECONDS[unit]
        if seconds < 1:
            raise ScheduleError("The shortest interval is 1 second.")
        if unit in _WHOLE_DAY_UNITS and count.is_integer():
            return _days(said, int(count) * (7 if unit == "week" else 1), said.local.time(), None)
        return IntervalTrigger(round(seconds * SECOND), instant_of(said.now), said.name)
    if unit not in _WHOLE_DAY_UNITS or not count.is_integer() or (unit == "day" and found["day"] is not None):
        raise ScheduleError(f"{said.text!r}: only days and weeks can have a time of day.")
    if count == 1:
        weekday = "*" if unit == "day" else str(words.weekday_of(found["day"] or f"{said.local:%A}".lower()))
        return _cron(said, times or [time()], f"* * {weekday}")
    if len(times) > 1:
        raise ScheduleError(f"{said.text!r}: name one time of day, and create another job for the other.")
    return _days(said, int(count) * (7 if unit == "week" else 1), times[0] if times else time(), found["day"])


def _days(said: _Said, days: int, at: time, weekday: str | None) -> DayTrigger:
    """Return the trigger that begins at the next such time of day, on a weekday if one is named."""
    first = datetime.combine(said.local.date(), at)
    while first <= said.local or (weekday is not None and first.isoweekday() % 7 != words.weekday_of(weekday)):
        first += _DAY
    return DayTrigger(days, first.isoformat(), said.name)


def _weekdays(said: _Said) -> AnyTrigger | None:
    """Read "every weekday at 9" and "every Monday and Friday at 9:30"."""
    found = _WEEKDAYS.fullmatch(said.text)
    if found is None:
        return None
    repeated = said.text.startswith(("every", "each", "weekly")) or _PLURAL.match(said.text)
    if not repeated:
        return None  # "Monday at 9" is a single time
    if found["days"].startswith("weekday"):
        days = "1-5"
    elif found["days"].startswith("weekend"):
        days = "0,6"
    else:
        named = re.findall(words.WEEKDAY, found["days"])
        days = ",".join(sorted({str(words.weekday_of(each)) for each in named}))
    return _cron(said, _needed(said, found["times"], found["part"]), f"* * {days}")


def _nth(said: _Said) -> AnyTrigger | None:
    """Read "every first Monday of the month at 9"."""
    found = _NTH.fullmatch(said.text)
    if found is None:
        return None
    which = "L" if found["nth"] == "last" else f"#{words.ORDINALS[found['nth']]}"
    days = f"* * {words.weekday_of(found['day'])}{which}"
    return _cron(said, _needed(said, found["times"], found["part"]), days)


def _monthly(said: _Said) -> AnyTrigger | None:
    """Read "every month on the 1st and 15th at 9" and "on the last day of every month at 18:00"."""
    found = _MONTHLY.fullmatch(said.text)
    if found is None:
        return None
    dates = found["dates"] or found["first_dates"]
    at = found if found["rest"] is None else _AT_END.fullmatch(found["rest"])
    if at is None:
        return None
    days = {"last day": "L", "last weekday": "LW"}.get(dates) or ",".join(re.findall(r"\d+", dates))
    return _cron(said, _needed(said, at["times"], at["part"]), f"{days} * *")


def _yearly(said: _Said) -> AnyTrigger | None:
    """Read "every year on 24 December at 9"."""
    found = _YEARLY.fullmatch(said.text)
    if found is None:
        return None
    date = re.sub(r"\D", "", found["date"] or found["date_first"])
    month = words.month_of(found["month"] or found["month_second"])
    return _cron(said, _needed(said, found["times"], found["part"]), f"{date} {month} *")


def _after(said: _Said) -> AnyTrigger | None:
    """Read "in 20 minutes" and "in 1 hour and 30 minutes". Days and weeks keep the time of day."""
    text = said.text.removeprefix("in ").replace(" and ", " ")
    if not said.text.startswith("in ") or _DURATION.fullmatch(text) is None:
        return None
    moment, days = said.now, 0
    for count, unit in re.findall(_AMOUNT, text):
        name, amount = words.unit_of(unit), words.count_of(count)
        if name in _WHOLE_DAY_UNITS and amount.is_integer():
            days += int(amount) * (7 if name == "week" else 1)
        else:
            moment += timedelta(seconds=amount * words.SECONDS[name])
    if not days:
        return OnceTrigger(instant_of(moment), said.name)
    local = moment.astimezone(said.zone).replace(tzinfo=None) + timedelta(days=days)
    return OnceTrigger(first_instant(local, said.zone), said.name)


def _once(original: str, said: _Said) -> AnyTrigger:
    """Read a single time, such as "tomorrow at 9" or ISO 8601.

    Raises:
        ScheduleError: The time is not understood, names no time of day, or is in the past.
    """
    past = False
    for text in _readings(original, said):
        found = resolve(text, said.now, said.zone, "future")
        if found is None or found.start is None:
            continue
        if found.end is None or found.end - found.start != _HOUR:
            raise ScheduleError(f"{original!r} names no time of day. Add one, such as 'tomorrow at 9:00'.")
        if found.start > said.now:
            return OnceTrigger(instant_of(found.start), said.name)
        past = True
    if past:
        raise ScheduleError(f"{original!r} is in the past. It is {said.local:%A, %Y-%m-%d %H:%M} in {said.name}.")
    raise ScheduleError(
        f"The schedule {original[:100]!r} is not understood. Write 'every 15 minutes', 'every weekday at 9', 'every "
        "month on the 1st at 8:30', 'in 20 minutes', 'tomorrow at 9:00', a time in ISO 8601, or cron fields such as "
        "'0 9 * * 1-5'."
    )


def _readings(original: str, said: _Said) -> Iterator[str]:
    """Yield the ways in which to read a single time. Later ones are used if the earlier ones are in the past."""
    if original[:1].isdigit() and "T" in original:
        yield original
        return
    yield said.text
    bare = said.text.removeprefix("on ")
    if re.fullmatch(rf"(?:at )?{words.CLOCK}", said.text):
        clock = said.text.removeprefix("at ")
        yield f"today at {clock}"
        yield f"tomorrow at {clock}"
    elif re.match(words.WEEKDAY, bare):
        yield f"next {bare}"


def _needed(said: _Said, times: str | None, part: str | None) -> list[time]:
    found = _times(times, part)
    if not found:
        raise ScheduleError(f"{said.text!r} names no time of day. Add one, such as 'at 9:00'.")
    return found


def _times(times: str | None, part: str | None) -> list[time]:
    """Return the times of day in an expression such as "9 and 17:30"; those of the part of the day if none is named.

    Raises:
        ScheduleError: There is no such time of day.
    """
    if times is None:
        return [] if part is None else [words.part_of(part)]
    found = []
    for each in re.findall(words.CLOCK, times):
        at = words.clock_of(each.strip(), part or "")
        if at is None:
            raise ScheduleError(f"{each.strip()!r} is not a time of day. Write 9:00, 17:30 or 5 pm.")
        found.append(at)
    return found


def _cron(said: _Said, times: list[time], days: str) -> CronTrigger:
    """Return the trigger for times of day on days, which are given as the last three cron fields.

    Raises:
        ScheduleError: There is no such day.
    """
    try:
        fields = [cron_fields(f"{at.second} {at.minute} {at.hour} {days}") for at in sorted(set(times))]
    except CronFieldsError:
        raise ScheduleError(f"{said.text!r} names a day that does not exist.") from None
    return CronTrigger(tuple(fields), said.name)
