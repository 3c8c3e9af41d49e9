"""`RegistryUpdates`: informs all processes on a home when a tool, prompt or agent changes (REG-8).

A keeper is a component that stores tools, prompts or agents. It first writes its source of truth (a file, a folder, a
row) and then publishes the change. If it is killed in between, `reconcile` publishes the missed change when the keeper
starts again. So an event may be late, but is never lost.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, Connection, MetaData, String, Table, bindparam, delete, insert, select

from engine.contract.context import Clock
from engine.contract.spaces import DEFAULT_SPACE
from engine.stores.event_log import EventLog
from engine.stores.records import Records

REGISTRY_UPDATED = "REGISTRY_UPDATED"
TOOLS_GENERATION = "tools"  # the counter in the records that increases whenever the set of tools changes

_AT_ONCE = 500  # items in one query

Subject = Literal["tools", "prompts", "agents"]
Happening = Literal["upsert", "disable", "delete"]

_SCHEMA = MetaData()
_STATES = Table(
    "registry_told",  # the table's name in existing databases
    _SCHEMA,
    Column("keeper", String(100), primary_key=True),
    Column("subject", String(20), primary_key=True),
    Column("space_id", String(100), primary_key=True),
    Column("item_id", String(200), primary_key=True),
    Column("state", String(200), nullable=False),
)


@dataclass(frozen=True, slots=True)
class Update:
    """A change of one tool, prompt or agent.

    Attributes:
        space_id: The space of the item; None for the space of the home.
        state: The new state of the item, such as its digest. It is stored, so that `RegistryUpdates.reconcile` can
            compare it; "" removes the stored state.
    """

    subject: Subject
    event: Happening
    item_id: str
    space_id: str | None = None
    state: str = ""


class RegistryUpdates:
    """Writes `REGISTRY_UPDATED` events, and stores what each keeper has published. Every method blocks."""

    def __init__(
        self,
        events: EventLog,
        lasting: Records,
        records: Records,
        clock: Clock,
        *,
        space_id: str = DEFAULT_SPACE,
    ) -> None:
        """Create the publisher, and its table if necessary.

        Args:
            events: The event log.
            lasting: The database with the event log.
            records: The database with the generation of the tools, a number that each change of a tool increments.
            clock: The source of time.
            space_id: The space of the home, such as ``shared:household``; used for changes without a space.
        """
        self.space_id = space_id
        self._events = events
        self._lasting = lasting
        self._records = records
        self._clock = clock
        lasting.create(_SCHEMA)

    def publish(self, subject: Subject, event: Happening, item_id: str, space_id: str | None = None) -> int:
        """Publish one change that `reconcile` will not check later. Do not call this method inside a transaction.

        Returns:
            The offset of the event.
        """
        return self.publish_all([Update(subject, event, item_id, space_id)])[0]

    def publish_all(self, updates: Iterable[Update], *, keeper: str = "") -> list[int]:
        """Publish several changes atomically, and return the offsets of their events.

        Args:
            keeper: The keeper that will reconcile them, such as ``"skills"``; "" for changes that are not reconciled.
        """
        listed = list(updates)
        if not listed:
            return []
        if any(each.subject == "tools" for each in listed):
            self._records.bump(TOOLS_GENERATION)  # before the events, so that subscribers find the change
        with self._lasting.begin() as connection:
            if keeper:
                self._remember(connection, keeper, listed)
            return self._events.append_all([(REGISTRY_UPDATED, self._payload(each)) for each in listed], connection)

    def reconcile(
        self,
        keeper: str,
        subject: Subject,
        truth: Mapping[str, str],
        space_id: str | None = None,
        *,
        disabled: Container[str] = (),
        always: Container[str] = (),
        among: Collection[str] | None = None,
        gone: Callable[[str], Happening] = lambda state: "delete",  # noqa: ARG005 -- the default ignores the state
    ) -> list[Update]:
        """Publish every difference between a keeper's source of truth and what it published before.

        The caller must make sure that the source of truth does not change in the meantime.

        Args:
            keeper: The keeper.
            subject: The kind of the items.
            truth: The state of every existing item, by id.
            space_id: The space of the items; None for the space of the home.
            disabled: The items that are disabled.
            always: Items to publish even if unchanged. A disabled item is published twice, as written and as disabled.
            among: The items to compare, if the keeper knows that all others are published; None for all items.
            gone: Function that returns what happened to an item that no longer exists, given its last state.

        Returns:
            The published changes.
        """
        known = self.published_states(keeper, subject, space_id, among)
        changed: list[Update] = []
        for name, state in sorted(truth.items()):
            if name in always or (name not in disabled and known.get(name) != state):
                changed.append(Update(subject, "upsert", name, space_id, state))
            if name in disabled and (name in always or known.get(name) != state):
                changed.append(Update(subject, "disable", name, space_id, state))
        missing = sorted(known.keys() - truth.keys())
        differences = [*changed, *(Update(subject, gone(known[name]), name, space_id) for name in missing)]
        if space_id is None and among is None:
            differences += self._elsewhere(keeper, subject)
        self.publish_all(differences, keeper=keeper)
        return differences

    def leave_other_spaces(self, keeper: str, subject: Subject) -> None:
        """Publish the deletion of this keeper's items in spaces to which the home may have belonged before."""
        gone = self._elsewhere(keeper, subject)
        for start in range(0, len(gone), _AT_ONCE):
            self.publish_all(gone[start : start + _AT_ONCE], keeper=keeper)

    def published_states(
        self, keeper: str, subject: Subject, space_id: str | None = None, among: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the states that this keeper last published, by item id.

        Args:
            among: The ids of the items; None for all items of the space.
        """
        space = self.space_id if space_id is None else space_id
        mine = (_STATES.c.keeper == keeper) & (_STATES.c.subject == subject) & (_STATES.c.space_id == space)
        query = select(_STATES.c.item_id, _STATES.c.state)
        with self._lasting.read() as connection:
            if among is None:
                return {row.item_id: row.state for row in connection.execute(query.where(mine))}
            some = list(among)
            parts = [some[start : start + _AT_ONCE] for start in range(0, len(some), _AT_ONCE)]
            within = [query.where(mine & _STATES.c.item_id.in_(part)) for part in parts]
            return {row.item_id: row.state for each in within for row in connection.execute(each)}

    def _elsewhere(self, keeper: str, subject: Subject) -> list[Update]:
        """Return the deletion of each item that this keeper published for a space other than the home's."""
        other = (_STATES.c.keeper == keeper) & (_STATES.c.subject == subject) & (_STATES.c.space_id != self.space_id)
        query = (
            select(_STATES.c.space_id, _STATES.c.item_id).where(other).order_by(_STATES.c.space_id, _STATES.c.item_id)
        )
        with self._lasting.read() as connection:
            return [Update(subject, "delete", row.item_id, row.space_id) for row in connection.execute(query)]

    def _remember(self, connection: Connection, keeper: str, updates: Iterable[Update]) -> None:
        rows: dict[tuple[str, str, str], dict[str, str]] = {}
        for each in updates:
            space = self.space_id if each.space_id is None else each.space_id
            key = {"keeper": keeper, "subject": each.subject, "space_id": space, "item_id": each.item_id}
            rows[each.subject, space, each.item_id] = {**key, "state": each.state}
        same = (_STATES.c[name] == bindparam(f"of_{name}") for name in ("keeper", "subject", "space_id", "item_id"))
        keys = [{f"of_{name}": value for name, value in row.items() if name != "state"} for row in rows.values()]
        connection.execute(delete(_STATES).where(*same), keys)
        kept = [row for row in rows.values() if row["state"]]
        if kept:
            connection.execute(insert(_STATES), kept)

    def _payload(self, update: Update) -> dict[str, Any]:
        return {
            "type": REGISTRY_UPDATED,
            "space_id": self.space_id if update.space_id is None else update.space_id,
            "subject": update.subject,
            "event": update.event,
            "item_id": update.item_id,
            "ts": self._clock.now().isoformat(),
        }
