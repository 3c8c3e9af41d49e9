"""Keeps a summary of the entries that were deleted from a log: their number per day."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Float, MetaData, String, Table, delete, insert, select, update

SCHEMA = MetaData()
_DAYS = Table(
    "history_days",
    SCHEMA,
    Column("log", String(20), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("duration_ms", Float, nullable=False),
)
DAYS_KEPT = 400


@dataclass(frozen=True, slots=True)
class DayCount:
    """How many entries of one day were deleted from a log.

    Attributes:
        name: The name of the tool, or the type of event.
        failed: How many of the entries were failures.
        duration_ms: The total duration of the entries, in milliseconds.
    """

    day: str
    name: str
    count: int
    failed: int = 0
    duration_ms: float = 0.0


def add(connection: Connection, log: str, counts: Iterable[DayCount]) -> None:
    """Add counts to the daily counts of a log, and delete all but the latest `DAYS_KEPT` days."""
    for each in counts:
        same = (_DAYS.c.log == log) & (_DAYS.c.day == each.day) & (_DAYS.c.name == each.name)
        more: dict[str, Any] = {
            "count": _DAYS.c.count + each.count,
            "failed": _DAYS.c.failed + each.failed,
            "duration_ms": _DAYS.c.duration_ms + each.duration_ms,
        }
        if not connection.execute(update(_DAYS).where(same).values(more)).rowcount:
            row = {"count": each.count, "failed": each.failed, "duration_ms": each.duration_ms}
            connection.execute(insert(_DAYS).values(log=log, day=each.day, name=each.name, **row))
    days = select(_DAYS.c.day).where(_DAYS.c.log == log).distinct().order_by(_DAYS.c.day.desc())
    oldest = connection.execute(days.offset(DAYS_KEPT).limit(1)).scalar()
    if oldest is not None:
        connection.execute(delete(_DAYS).where((_DAYS.c.log == log) & (_DAYS.c.day <= oldest)))


def days(connection: Connection, log: str) -> list[DayCount]:
    """Return the daily counts of a log, oldest first."""
    columns = (_DAYS.c.day, _DAYS.c.name, _DAYS.c.count, _DAYS.c.failed, _DAYS.c.duration_ms)
    query = select(*columns).where(_DAYS.c.log == log).order_by(_DAYS.c.day, _DAYS.c.name)
    return [DayCount(*row) for row in connection.execute(query)]
