"""`CronTrigger`: instants by cron fields, in a time zone.

cronsim (https://github.com/cuu508/cronsim) reads the fields and finds matching wall-clock times. What happens when
clocks change is decided here, because cronsim treats changes as Debian's cron does only in expressions without seconds:

- An expression that matches every hour follows elapsed time: it matches in both of two hours with the same name, and
  not in an hour that clocks skip.
- Any other expression matches wall-clock times. A time that clocks skip matches at the moment of the change. A time
  that clocks show twice matches once, the first time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from builtin_tools.schedule.triggers.wall_time import (
    SECOND,
    change_of_clocks,
    first_instant,
    instant_of,
    local_time,
    offset_at,
)
from engine.times.time_zones import known_zone

_FIELDS = 6  # second, minute, hour, day of the month, month, day of the week
_HOURS = 24
_UTC = ZoneInfo("UTC")
_STEP = 12 * 3600 * SECOND  # clocks change at most once in this time, and by less
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 -- a wall-clock time
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class CronFieldsError(ValueError):
    """A cron expression is invalid. The message says which field."""


def cron_fields(text: str) -> str:
    """Return a cron expression with six fields, of which the first is the second.

    Args:
        text: Five fields, six fields or a macro such as ``"@daily"``.

    Raises:
        CronFieldsError: The expression is invalid.
    """
    fields = _MACROS.get(text.strip().lower(), text).split()
    if len(fields) == _FIELDS - 1:
        fields = ["0", *fields]
    expression = " ".join(fields).upper()
    try:
        next(CronSim(expression, _ANY_TIME))
    except CronSimError as error:
        raise CronFieldsError(f"{text!r} is not a valid cron expression: {str(error).lower()}") from None
    except StopIteration:
        raise CronFieldsError(f"{text!r} matches no date") from None
    return expression


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """The instants that any of some cron expressions matches.

    Attributes:
        expressions: The expressions, with six fields each (`cron_fields`).
    """

    expressions: tuple[str, ...]
    zone: str

    def next_after(self, instant: int) -> int | None:
        """Return the first matching instant after the given one; None if there is none within 50 years."""
        found = [_next(expression, instant, self.zone) for expression in self.expressions]
        return min((each for each in found if each is not None), default=None)

    def describe(self) -> str:
        return f"cron {' | '.join(self.expressions)} ({self.zone})"


def _next(expression: str, instant: int, zone_name: str) -> int | None:
    zone = known_zone(zone_name)
    try:
        if len(CronSim(expression, _ANY_TIME).hours) == _HOURS:
            return _next_elapsed(expression, instant, zone)
        return _next_wall_time(expression, instant, zone)
    except (StopIteration, OverflowError):
        return None


def _next_wall_time(expression: str, instant: int, zone: ZoneInfo) -> int:
    """Return the next instant at which clocks show a matching time, or are set forward over one."""
    wall_times = CronSim(expression, local_time(instant, zone))
    while True:
        found = first_instant(next(wall_times), zone)
        if found > instant:
            return found


def _next_elapsed(expression: str, instant: int, zone: ZoneInfo) -> int:
    """Return the next instant at which clocks show a matching time, including times that they show again.

    cronsim only sees wall-clock times, because it passes over times that are shown again where clocks change by half an
    hour.
    """
    at, offset = instant, offset_at(instant, zone)
    while True:
        shown = next(CronSim(expression, local_time(at + offset, _UTC)))
        found = instant_of(shown.replace(tzinfo=UTC)) - offset
        end = min(found, at + _STEP)
        if offset_at(end, zone) != offset:
            change = change_of_clocks(at, end, zone)
            at, offset = change - 1, offset_at(change, zone)
        elif end == found:
            return found
        else:  # nothing matches until shortly before `found`, where clocks may change
            at = max(end, found - _STEP)
            offset = offset_at(at, zone)
