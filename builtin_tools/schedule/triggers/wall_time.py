"""Converts between local wall-clock times and instants.

An *instant* is a whole number of milliseconds since 1970-01-01 UTC.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(moment: datetime) -> int:
    """Return the instant of an aware time, without fractions of a millisecond."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_of(instant: int, zone: ZoneInfo | None = None) -> datetime:
    """Return the aware time of an instant, in UTC or in the given zone."""
    moment = _EPOCH + timedelta(milliseconds=instant)
    return moment if zone is None else moment.astimezone(zone)


def local_time(instant: int, zone: ZoneInfo) -> datetime:
    """Return the wall-clock time at an instant, without a zone."""
    return moment_of(instant, zone).replace(tzinfo=None)


def first_instant(local: datetime, zone: ZoneInfo) -> int:
    """Return the instant at which clocks first show a local time.

    If clocks are set forward over the time, the result is the instant at which they are set forward. If clocks show the
    time twice, because they are set back, the result is the first of the two.
    """
    early, late = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    if late.astimezone(zone).replace(tzinfo=None) == local:
        return instant_of(late)
    return change_of_clocks(instant_of(early), instant_of(late), zone)


def offset_at(instant: int, zone: ZoneInfo) -> int:
    """Return by how many milliseconds local time is ahead of UTC at an instant."""
    return (moment_of(instant, zone).utcoffset() or timedelta()) // timedelta(milliseconds=1)


def change_of_clocks(early: int, late: int, zone: ZoneInfo) -> int:
    """Return the first instant of the offset that applies at `late`, where another one applies at `early`."""
    before = offset_at(early, zone)
    while late - early > 1:
        middle = (early + late) // 2
        if offset_at(middle, zone) == before:
            early = middle
        else:
            late = middle
    return late
