"""`EventLog`: an ordered log of events that keeps the position of each subscriber (REG-9).

Every event is delivered at least once. An event that is not acknowledged within its lease is delivered again, a
rejected event is delivered again after a back-off, and an event that fails too often becomes a dead letter.
Acknowledged events are not delivered again, except by `replay`. Every operation is one transaction, so after `kill -9`
at any point it is either complete or has had no effect.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from engine.contract.context import Clock
from engine.stores import history
from engine.stores.event_retention import EVENTS_KEPT, SUBSCRIBER_DAYS, SWEEP_EVERY, Subscriptions, sweep
from engine.stores.history import DayCount
from engine.stores.records import Records, add_missing_columns, missing_columns

EVENTS_GENERATION = "events"
LEASE_S = 30.0
MOST_ATTEMPTS = 5
LONGEST_WAIT_S = 300.0  # the longest lease or back-off; a due time further ahead means that the clock was set back
_FIRST_WAIT_S = 1.0  # the back-off after the first rejection; each further rejection doubles it

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_SCHEMA = MetaData()
_EVENTS = Table(
    "events",
    _SCHEMA,
    Column("offset", _NUMBER, primary_key=True, autoincrement=False),
    Column("ts", String(40), nullable=False),
    Column("type", String(100), nullable=False),
    Column("payload", Text, nullable=False),
)
_SUBSCRIBERS = Table(
    "event_subscribers",
    _SCHEMA,
    Column("name", String(100), primary_key=True),
    Column("types", Text, nullable=False),
    Column("cursor", _NUMBER, nullable=False),
    Column("seen", Float, nullable=True),
)
_PENDING = Table(
    "event_pending",
    _SCHEMA,
    Column("subscriber", String(100), primary_key=True),
    Column("offset", _NUMBER, primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("due", Float, nullable=False),
)
_DEAD = Table(
    "event_dead_letters",
    _SCHEMA,
    Column("subscriber", String(100), primary_key=True),
    Column("offset", _NUMBER, primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)
_SUBSCRIPTIONS = Subscriptions(_SUBSCRIBERS, (_PENDING, _DEAD))
_DAY_S = 86_400.0
_SEEN_EVERY_S = 3_600.0  # a subscriber's last fetch is recorded with this precision


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log.

    Attributes:
        offset: The event's position in the log, starting at 1.
        ts: When the event was added (UTC, ISO 8601).
        payload: A JSON object.
    """

    offset: int
    ts: str
    type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of an event to a subscriber.

    Attributes:
        attempt: The number of the delivery, 1 for the first.
    """

    event: Event
    attempt: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that a subscriber could not process, with the reason."""

    event: Event
    attempts: int
    reason: str


class UnknownSubscriber(LookupError):
    """There is no subscriber with this name."""


class EventLog:
    """An event log in a database, shared by all processes that use the database. Every method blocks."""

    def __init__(
        self,
        records: Records,
        clock: Clock,
        *,
        most_attempts: int = MOST_ATTEMPTS,
        kept: int = EVENTS_KEPT,
        subscriber_days: float = SUBSCRIBER_DAYS,
    ) -> None:
        """Create missing tables.

        Args:
            records: The database.
            clock: The source of time.
            most_attempts: How many times an event is delivered before it becomes a dead letter.
            kept: How many of the newest events to keep after every subscriber has processed them.
            subscriber_days: Days without a fetch after which a subscriber is removed if it prevents the deletion of
                old events.
        """
        self._records = records
        self._clock = clock
        self._most_attempts = most_attempts
        self._kept = kept
        self._since_sweep = 0
        self._subscriber_days = subscriber_days
        records.create(_SCHEMA)
        records.create(history.SCHEMA)
        self._upgrade()

    def generation(self) -> int:
        """Return the offset of the newest event, to check whether `fetch` is needed. This takes only microseconds."""
        return self._records.generation(EVENTS_GENERATION)

    def append(self, kind: str, payload: Mapping[str, Any]) -> int:
        """Append one event and return its offset."""
        return self.append_all([(kind, payload)])[0]

    def append_all(
        self, events: Sequence[tuple[str, Mapping[str, Any]]], connection: Connection | None = None
    ) -> list[int]:
        """Append events atomically and return their offsets.

        Args:
            connection: An open transaction on the log's records; None starts one.

        Raises:
            TypeError: A payload cannot be represented as JSON.
        """
        if not events:
            return []
        ts = self._clock.now().isoformat()
        rows = [{"ts": ts, "type": kind, "payload": json.dumps(payload)} for kind, payload in events]
        with self._records.begin() if connection is None else nullcontext(connection) as own:
            # The offsets come from the counter. Its row is locked until the transaction ends, so that events appear in
            # order even in a database that allows concurrent writers.
            last = self._records.bump(EVENTS_GENERATION, own, by=len(rows))
            offsets = list(range(last - len(rows) + 1, last + 1))
            own.execute(insert(_EVENTS), [row | {"offset": n} for n, row in zip(offsets, rows, strict=True)])
            self._since_sweep += len(rows)
            if self._since_sweep >= SWEEP_EVERY:
                self._since_sweep = 0
                absent = self._clock.now().timestamp() - self._subscriber_days * _DAY_S
                sweep(own, _EVENTS, _SUBSCRIPTIONS, self._kept, absent)
            return offsets

    def history(self) -> list[DayCount]:
        """Return how many events were deleted from the log, per type and day."""
        with self._records.read() as connection:
            return history.days(connection, "events")

    def read(self, after: int = 0, limit: int = 100) -> list[Event]:
        """Return the events after an offset, in order. It is meant for inspection; subscribers use `fetch`."""
        with self._records.read() as connection:
            return _events(connection, _EVENTS.c.offset > after, limit)

    def subscribe(self, name: str, *, types: Iterable[str] = (), from_start: bool = False) -> None:
        """Add a subscriber. An existing subscriber keeps its position, but its event types are replaced.

        Args:
            name: The name of the subscriber.
            types: The types of events to receive; empty for all.
            from_start: Whether a new subscriber also receives the events that are already in the log.
        """
        wanted = json.dumps(sorted(set(types)))
        with self._records.begin() as connection:
            if connection.execute(
                update(_SUBSCRIBERS).where(_SUBSCRIBERS.c.name == name).values(types=wanted)
            ).rowcount:
                return
            cursor = 0 if from_start else _last(connection)
            seen = self._clock.now().timestamp()
            connection.execute(insert(_SUBSCRIBERS).values(name=name, types=wanted, cursor=cursor, seen=seen))

    def unsubscribe(self, name: str) -> None:
        """Remove a subscriber with its pending events and dead letters, which no longer keep events in the log."""
        with self._records.begin() as connection:
            _SUBSCRIPTIONS.remove(connection, name)

    def fetch(self, name: str, limit: int = 100, *, lease_s: float = LEASE_S) -> list[Delivery]:
        """Return the events to process now: first those that are delivered again, then new ones.

        Args:
            name: The subscriber.
            limit: The maximum number of deliveries to return.
            lease_s: Seconds within which each event must be acknowledged, at most `LONGEST_WAIT_S`. After that it
                is delivered again, possibly to another process.

        Raises:
            UnknownSubscriber: There is no such subscriber.
        """
        now = self._clock.now().timestamp()
        lease_s = min(lease_s, LONGEST_WAIT_S)
        with self._records.begin() as connection:
            types, cursor = self._subscriber(connection, name)
            unseen = ~_SUBSCRIBERS.c.seen.between(now - _SEEN_EVERY_S, now) | _SUBSCRIBERS.c.seen.is_(None)
            connection.execute(update(_SUBSCRIBERS).where((_SUBSCRIBERS.c.name == name) & unseen).values(seen=now))
            self._bury_expired(connection, name, now)
            again = self._redeliveries(connection, name, now + lease_s, now, limit)
            new, reached = self._new(connection, types, cursor, limit - len(again))
            if new:
                rows = [
                    {"subscriber": name, "offset": each.offset, "attempts": 1, "due": now + lease_s} for each in new
                ]
                connection.execute(insert(_PENDING), rows)
            if reached != cursor:
                connection.execute(update(_SUBSCRIBERS).where(_SUBSCRIBERS.c.name == name).values(cursor=reached))
        return [*again, *(Delivery(event, 1) for event in new)]

    def ack(self, name: str, offsets: Iterable[int]) -> int:
        """Acknowledge events, which are then delivered again only after `replay`. Return how many were pending."""
        with self._records.begin() as connection:
            return sum(
                connection.execute(delete(_PENDING).where(_of(_PENDING, name, each))).rowcount for each in offsets
            )

    def nack(self, name: str, offset: int, reason: str) -> bool:
        """Reject an event, which is then delivered again later, or becomes a dead letter after too many attempts.

        Returns:
            False if the event was not pending.
        """
        now = self._clock.now().timestamp()
        with self._records.begin() as connection:
            attempts = connection.execute(select(_PENDING.c.attempts).where(_of(_PENDING, name, offset))).scalar()
            if attempts is None:
                return False
            if attempts >= self._most_attempts:
                self._bury(connection, name, offset, attempts, reason)
            else:
                due = now + min(_FIRST_WAIT_S * 2 ** (attempts - 1), LONGEST_WAIT_S)
                connection.execute(update(_PENDING).where(_of(_PENDING, name, offset)).values(due=due))
            return True

    def dead_letters(self, name: str) -> list[DeadLetter]:
        """Return the dead letters of this subscriber, in order."""
        query = select(_EVENTS, _DEAD.c.attempts, _DEAD.c.reason).join(_DEAD, _DEAD.c.offset == _EVENTS.c.offset)
        with self._records.read() as connection:
            rows = connection.execute(query.where(_DEAD.c.subscriber == name).order_by(_EVENTS.c.offset)).mappings()
            return [DeadLetter(_event(row), row["attempts"], row["reason"]) for row in rows]

    def revive(self, name: str, offset: int) -> bool:
        """Deliver a dead letter again, and reset its attempts. Return False if there is no such dead letter."""
        with self._records.begin() as connection:
            if not connection.execute(delete(_DEAD).where(_of(_DEAD, name, offset))).rowcount:
                return False
            row = {"subscriber": name, "offset": offset, "attempts": 0, "due": self._clock.now().timestamp()}
            connection.execute(insert(_PENDING).values(row))
            return True

    def replay(self, name: str, after: int = 0) -> None:
        """Deliver all events after an offset again, as if they were new.

        Raises:
            UnknownSubscriber: There is no such subscriber.
        """
        with self._records.begin() as connection:
            self._subscriber(connection, name)
            for table in (_PENDING, _DEAD):
                connection.execute(delete(table).where((table.c.subscriber == name) & (table.c.offset > after)))
            connection.execute(update(_SUBSCRIBERS).where(_SUBSCRIBERS.c.name == name).values(cursor=after))

    def _upgrade(self) -> None:
        """Add columns that tables of an earlier release lack. Existing subscribers count as having fetched just now."""
        if self._records.read_only:  # the disk is full, so no subscriber can be removed either
            return
        with self._records.read() as connection:
            if not missing_columns(connection, _SUBSCRIBERS):
                return
        with self._records.begin() as connection:
            if add_missing_columns(connection, _SUBSCRIBERS):
                connection.execute(update(_SUBSCRIBERS).values(seen=self._clock.now().timestamp()))

    def _subscriber(self, connection: Connection, name: str) -> tuple[list[str], int]:
        query = select(_SUBSCRIBERS.c.types, _SUBSCRIBERS.c.cursor).where(_SUBSCRIBERS.c.name == name)
        found = connection.execute(query.with_for_update()).one_or_none()
        if found is None:
            raise UnknownSubscriber(f"There is no event subscriber called {name!r}. Call `subscribe` first.")
        types, cursor = found
        return json.loads(types), cursor

    def _redeliveries(self, connection: Connection, name: str, due: float, now: float, limit: int) -> list[Delivery]:
        query = select(_EVENTS, _PENDING.c.attempts).join(_PENDING, _PENDING.c.offset == _EVENTS.c.offset)
        mine = (_PENDING.c.subscriber == name) & _is_due(now)
        rows = connection.execute(query.where(mine).order_by(_EVENTS.c.offset).limit(limit)).mappings().all()
        for row in rows:
            changed = {"attempts": row["attempts"] + 1, "due": due}
            connection.execute(update(_PENDING).where(_of(_PENDING, name, row["offset"])).values(changed))
        return [Delivery(_event(row), row["attempts"] + 1) for row in rows]

    @staticmethod
    def _new(connection: Connection, types: Sequence[str], cursor: int, limit: int) -> tuple[list[Event], int]:
        """Return the events of the wanted types after the cursor (an offset), and the new cursor."""
        if limit <= 0:
            return [], cursor
        wanted = _EVENTS.c.offset > cursor
        found = _events(connection, wanted & _EVENTS.c.type.in_(types) if types else wanted, limit)
        if len(found) == limit:
            return found, found[-1].offset
        return found, max(cursor, _last(connection))  # also skips events of other types

    def _bury_expired(self, connection: Connection, name: str, now: float) -> None:
        """Turn events into dead letters if they have no attempts left and their last lease has expired."""
        over = (_PENDING.c.subscriber == name) & _is_due(now) & (_PENDING.c.attempts >= self._most_attempts)
        for offset, attempts in connection.execute(select(_PENDING.c.offset, _PENDING.c.attempts).where(over)).all():
            self._bury(connection, name, offset, attempts, "not acknowledged in time")

    @staticmethod
    def _bury(connection: Connection, name: str, offset: int, attempts: int, reason: str) -> None:
        connection.execute(delete(_PENDING).where(_of(_PENDING, name, offset)))
        row = {"subscriber": name, "offset": offset, "attempts": attempts, "reason": reason}
        connection.execute(insert(_DEAD).values(row))


def _of(table: Table, name: str, offset: int) -> Any:
    return (table.c.subscriber == name) & (table.c.offset == offset)


def _is_due(now: float) -> Any:
    """Return the SQL condition for pending events that must be delivered again, because their lease has ended.

    Leases are wall-clock times, because processes on several machines may share the log. No wait exceeds
    `LONGEST_WAIT_S`, so setting the clock back delays a delivery by at most that much.
    """
    return (_PENDING.c.due <= now) | (_PENDING.c.due > now + LONGEST_WAIT_S)


def _last(connection: Connection) -> int:
    return int(connection.execute(select(func.max(_EVENTS.c.offset))).scalar() or 0)


def _events(connection: Connection, condition: Any, limit: int) -> list[Event]:
    query = select(_EVENTS).where(condition).order_by(_EVENTS.c.offset).limit(limit)
    return [_event(row) for row in connection.execute(query).mappings()]


def _event(row: RowMapping) -> Event:
    return Event(row["offset"], row["ts"], row["type"], json.loads(row["payload"]))
