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
    before = early.astimezone(zone).utcoffset()
    while late - early > timedelta(seconds=1):  # bisects for the moment at which the offset changes
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return instant_of(late)
