"""Which events may be dropped from the log: old ones that every subscriber is done with.

An event stays, however old, while a subscriber has not fetched it yet, while it waits for an acknowledgement, and while
it is a dead letter.
"""

from sqlalchemy import Connection, Table, delete, func, select

from engine.stores import history
from engine.stores.history import DayCount

EVENTS_KEPT = 100_000
SWEEP_EVERY = 1_000  # events between two sweeps
MOST_AT_ONCE = 20_000  # dropped by one sweep, so that no append waits long


def sweep(connection: Connection, events: Table, cursors: Table, holders: tuple[Table, ...], kept: int) -> int:
    """Drop what is beyond the newest `kept` and wanted by nobody; how many events. The newest event always stays.

    cursors: how far each subscriber is. holders: tables of events that are waiting for something.
    """
    newest = connection.execute(select(func.max(events.c.offset))).scalar() or 0
    oldest = connection.execute(select(func.min(events.c.offset))).scalar() or 0
    read = connection.execute(select(func.min(cursors.c.cursor))).scalar()
    until = min(newest - max(kept, 1), newest if read is None else read, oldest + MOST_AT_ONCE)
    if until < oldest:
        return 0
    gone = events.c.offset <= until
    for holder in holders:
        gone &= events.c.offset.not_in(select(holder.c.offset))
    day = func.substr(events.c.ts, 1, 10)
    counted = select(day, events.c.type, func.count()).where(gone).group_by(day, events.c.type)
    history.add(connection, "events", [DayCount(*row) for row in connection.execute(counted).all()])
    return connection.execute(delete(events).where(gone)).rowcount
