"""Deletes old events from the log once every subscriber has processed them.

Events of any age stay in the log until every subscriber has fetched and acknowledged them, and as long as they are dead
letters. A subscriber that prevents deletion and has fetched nothing for a long time is removed.
"""

import logging
from dataclasses import dataclass

from sqlalchemy import Connection, Table, delete, func, select

from engine.stores import history
from engine.stores.history import DayCount

EVENTS_KEPT = 100_000
SUBSCRIBER_DAYS = 30.0  # days without a fetch after which a subscriber no longer prevents deletion
SWEEP_EVERY = 1_000  # events between two sweeps
MOST_AT_ONCE = 20_000  # the most events deleted by one sweep, so that no append has to wait long

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Removes subscribers from their tables, which also say which events must stay in the log.

    Attributes:
        cursors: The table of the subscribers' positions.
        holders: The tables of pending events and of dead letters. Events listed there must stay in the log.
    """

    cursors: Table
    holders: tuple[Table, ...]

    def remove(self, connection: Connection, name: str) -> None:
        """Remove a subscriber with its pending events and dead letters."""
        connection.execute(delete(self.cursors).where(self.cursors.c.name == name))
        for holder in self.holders:
            connection.execute(delete(holder).where(holder.c.subscriber == name))

    def remove_absent(self, connection: Connection, before: int, seen_before: float) -> None:
        """Remove subscribers that are behind offset `before` and have not fetched since `seen_before` (Unix time)."""
        behind = (self.cursors.c.cursor < before) & (self.cursors.c.seen < seen_before)
        for name in connection.execute(select(self.cursors.c.name).where(behind)).scalars().all():
            log.warning(
                "The event subscriber %r has fetched nothing for too long and was removed, so that old events can be "
                "deleted ([retention] subscriber_days). To receive events again, it has to subscribe again.",
                name,
            )
            self.remove(connection, name)


def sweep(connection: Connection, events: Table, subscriptions: Subscriptions, kept: int, seen_before: float) -> int:
    """Delete processed events except the newest `kept`, and return how many were deleted.

    The last event always stays.

    Args:
        seen_before: A Unix time. Subscribers that prevent deletion are removed if they have fetched nothing since then.
    """
    newest = connection.execute(select(func.max(events.c.offset))).scalar() or 0
    oldest = connection.execute(select(func.min(events.c.offset))).scalar() or 0
    subscriptions.remove_absent(connection, newest - max(kept, 1), seen_before)
    read = connection.execute(select(func.min(subscriptions.cursors.c.cursor))).scalar()
    until = min(newest - max(kept, 1), newest if read is None else read, oldest + MOST_AT_ONCE)
    if until < oldest:
        return 0
    gone = events.c.offset <= until
    for holder in subscriptions.holders:
        gone &= events.c.offset.not_in(select(holder.c.offset))
    day = func.substr(events.c.ts, 1, 10)
    counted = select(day, events.c.type, func.count()).where(gone).group_by(day, events.c.type)
    history.add(connection, "events", [DayCount(*row) for row in connection.execute(counted).all()])
    return connection.execute(delete(events).where(gone)).rowcount
