"""`RegistryUpdates`: publishes what was registered, changed, disabled or deleted to all processes on a home (REG-8).

A keeper of tools, prompts or agents first writes its source of truth (a file, a folder, a row) and then publishes. If
it is killed in between, it reconciles at its next start (`reconcile`), which publishes what was missed. So an event may
be late, but is never lost.
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
TOOLS_GENERATION = "tools"  # a generation in the records that changes whenever the set of tools does

_AT_ONCE = 500  # items in one query

Subject = Literal["tools", "prompts", "agents"]
Happening = Literal["upsert", "disable", "delete"]

_SCHEMA = MetaData()
_TOLD = Table(
    "registry_told",
    _SCHEMA,
    Column("keeper", String(100), primary_key=True),
    Column("subject", String(20), primary_key=True),
    Column("space_id", String(100), primary_key=True),
    Column("item_id", String(200), primary_key=True),
    Column("state", String(200), nullable=False),
)


@dataclass(frozen=True, slots=True)
class Update:
    """One change. state: of the item now, such as a digest, for keepers that reconcile; "" forgets it.

    space_id: None for the space of the home.
    """

    subject: Subject
    event: Happening
    item_id: str
    space_id: str | None = None
    state: str = ""


class RegistryUpdates:
    """Writes `REGISTRY_UPDATED` to the event log, and remembers what each keeper has published. Every method blocks."""

    def __init__(
        self,
        events: EventLog,
        lasting: Records,
        records: Records,
        clock: Clock,
        *,
        space_id: str = DEFAULT_SPACE,
    ) -> None:
        """Create the updates.

        Args:
            lasting: The records that contain the event log.
            records: The records whose generation of tools is bumped.
            space_id: The space of the home, such as ``shared:household``; the default of changes without a space.
        """
        self.space_id = space_id
        self._events = events
        self._lasting = lasting
        self._records = records
        self._clock = clock
        lasting.create(_SCHEMA)

    def tell(self, subject: Subject, event: Happening, item_id: str, space_id: str | None = None) -> int:
        """Publish one change that no keeper reconciles, and return its offset. Do not call it inside a transaction."""
        return self.tell_all([Update(subject, event, item_id, space_id)])[0]

    def tell_all(self, updates: Iterable[Update], *, keeper: str = "") -> list[int]:
        """Publish several changes atomically, and return the offsets of their events.

        keeper: the keeper that will reconcile them, such as ``"skills"``; none for changes that are not reconciled.
        """
        listed = list(updates)
        if not listed:
            return []
        if any(each.subject == "tools" for each in listed):
            self._records.bump(TOOLS_GENERATION)  # first, so that subscribers find the change
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
        gone: Callable[[str], Happening] = lambda state: "delete",  # noqa: ARG005 -- regardless of the state
    ) -> list[Update]:
        """Publish how a keeper's truth differs from what it published so far, and return the updates.

        Nobody else may change the truth meanwhile.

        Args:
            keeper: The keeper.
            truth: The state of every existing item, by id.
            disabled: The items that are disabled.
            always: Items to publish even if unchanged; for a disabled one, that it was written and that it is disabled.
            among: Restricts the comparison to these items, if all others are known to be published.
            gone: Returns what happened to an item that no longer exists, by its last state.
        """
        known = self.told(keeper, subject, space_id, among)
        changed: list[Update] = []
        for name, state in sorted(truth.items()):
            if name in always or (name not in disabled and known.get(name) != state):
                changed.append(Update(subject, "upsert", name, space_id, state))
            if name in disabled and (name in always or known.get(name) != state):
                changed.append(Update(subject, "disable", name, space_id, state))
        missing = sorted(known.keys() - truth.keys())
        told = [*changed, *(Update(subject, gone(known[name]), name, space_id) for name in missing)]
        if space_id is None and among is None:
            told += self._elsewhere(keeper, subject)
        self.tell_all(told, keeper=keeper)
        return told

    def leave_other_spaces(self, keeper: str, subject: Subject) -> None:
        """Publish that this keeper has nothing left in the home's previous space, if it was in another one."""
        gone = self._elsewhere(keeper, subject)
        for start in range(0, len(gone), _AT_ONCE):
            self.tell_all(gone[start : start + _AT_ONCE], keeper=keeper)

    def told(
        self, keeper: str, subject: Subject, space_id: str | None = None, among: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the state of every item, or of the given ones, as this keeper last published it, by id."""
        space = self.space_id if space_id is None else space_id
        mine = (_TOLD.c.keeper == keeper) & (_TOLD.c.subject == subject) & (_TOLD.c.space_id == space)
        query = select(_TOLD.c.item_id, _TOLD.c.state)
        with self._lasting.read() as connection:
            if among is None:
                return {row.item_id: row.state for row in connection.execute(query.where(mine))}
            some = list(among)
            parts = [some[start : start + _AT_ONCE] for start in range(0, len(some), _AT_ONCE)]
            within = [query.where(mine & _TOLD.c.item_id.in_(part)) for part in parts]
            return {row.item_id: row.state for each in within for row in connection.execute(each)}

    def _elsewhere(self, keeper: str, subject: Subject) -> list[Update]:
        """Return deletions of what this keeper published for other spaces than the home's."""
        other = (_TOLD.c.keeper == keeper) & (_TOLD.c.subject == subject) & (_TOLD.c.space_id != self.space_id)
        query = select(_TOLD.c.space_id, _TOLD.c.item_id).where(other).order_by(_TOLD.c.space_id, _TOLD.c.item_id)
        with self._lasting.read() as connection:
            return [Update(subject, "delete", row.item_id, row.space_id) for row in connection.execute(query)]

    def _remember(self, connection: Connection, keeper: str, updates: Iterable[Update]) -> None:
        rows: dict[tuple[str, str, str], dict[str, str]] = {}
        for each in updates:
            space = self.space_id if each.space_id is None else each.space_id
            key = {"keeper": keeper, "subject": each.subject, "space_id": space, "item_id": each.item_id}
            rows[each.subject, space, each.item_id] = {**key, "state": each.state}
        same = (_TOLD.c[name] == bindparam(f"of_{name}") for name in ("keeper", "subject", "space_id", "item_id"))
        keys = [{f"of_{name}": value for name, value in row.items() if name != "state"} for row in rows.values()]
        connection.execute(delete(_TOLD).where(*same), keys)
        kept = [row for row in rows.values() if row["state"]]
        if kept:
            connection.execute(insert(_TOLD), kept)

    def _payload(self, update: Update) -> dict[str, Any]:
        return {
            "type": REGISTRY_UPDATED,
            "space_id": self.space_id if update.space_id is None else update.space_id,
            "subject": update.subject,
            "event": update.event,
            "item_id": update.item_id,
            "ts": self._clock.now().isoformat(),
        }
