"""`scratchpad`: short notes of one agent for one user. They are stored in the records, so they survive a restart."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import Column, ColumnElement, Connection, MetaData, String, Table, Text, delete, func, select, update
from typing_extensions import TypedDict

from engine.contract.context import CallContext, Clock, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool
from engine.stores.records import Records, add_missing_columns

MAX_NOTES = 500
MAX_KEY = 120
MAX_VALUE = 32_768  # characters; longer texts belong in a file

SCHEMA = MetaData()
NOTES = Table(
    "scratchpad",
    SCHEMA,
    Column("user", String(200), primary_key=True),
    Column("agent", String(200), primary_key=True),
    Column("key", String(MAX_KEY), primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated", String(40), nullable=False),  # UTC, ISO 8601
    Column("hidden", String(40), nullable=True),  # when the note was hidden; null if it is shown
)


class NoteRow(TypedDict):
    """A note in a list.

    Attributes:
        characters: The length of the note.
        updated: The time of the last change, in UTC (ISO 8601).
    """

    key: str
    characters: int
    updated: str


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """Stores the notes in the records. Each method acts on the notes of the user and agent of the given turn."""

    records: Records
    clock: Clock

    @classmethod
    def open(cls, records: Records, clock: Clock) -> "Scratchpad":
        records.create(SCHEMA)
        if not records.read_only:
            with records.begin() as connection:
                add_missing_columns(connection, NOTES)
        return cls(records, clock)

    def set(self, turn: Turn, key: str, value: str) -> bool:
        """Write a note.

        Returns:
            Whether it replaced an existing note.

        Raises:
            ToolFailure: There are already `MAX_NOTES` other notes.
        """
        with self.records.begin() as connection:
            replaced = connection.execute(delete(NOTES).where(*owned_by(turn), NOTES.c.key == key)).rowcount > 0
            if count(connection, turn) >= MAX_NOTES:
                raise ToolFailure(
                    f"The scratchpad already holds {MAX_NOTES} notes. Clear some, or write to a file.",
                    reason="scratchpad_full",
                    may_have_started=False,
                )
            row = {"user": turn.user, "agent": turn.agent, "key": key, "value": value}
            connection.execute(NOTES.insert().values(**row, updated=self.clock.now().isoformat(timespec="seconds")))
        return replaced

    def get(self, turn: Turn, key: str) -> str | None:
        with self.records.read() as connection:
            value: str | None = connection.execute(
                select(NOTES.c.value).where(*shown_to(turn), NOTES.c.key == key)
            ).scalar()
        return value

    def stale(self, turn: Turn, days: float) -> list[str]:
        """Return the sorted keys of the notes that have not been changed for this number of days."""
        before = (self.clock.now() - timedelta(days=days)).isoformat(timespec="seconds")
        wanted = select(NOTES.c.key).where(*shown_to(turn), NOTES.c.updated < before).order_by(NOTES.c.key)
        with self.records.read() as connection:
            return list(connection.execute(wanted).scalars())

    def list(self, turn: Turn) -> list[NoteRow]:
        """Return the key, the length in characters and the time of the last change of every note, sorted by key."""
        wanted = select(NOTES.c.key, func.length(NOTES.c.value).label("characters"), NOTES.c.updated)
        with self.records.read() as connection:
            rows = connection.execute(wanted.where(*shown_to(turn)).order_by(NOTES.c.key))
            return [NoteRow(key=row.key, characters=row.characters, updated=row.updated) for row in rows]

    def hide(self, user: str, agent: str, keys: Collection[str], hidden: bool) -> int:
        """Hide notes or show them again, and return how many changed. A new note replaces a hidden one with its key."""
        chosen = [NOTES.c.user == user, NOTES.c.agent == agent, NOTES.c.key.in_(list(keys))]
        now = self.clock.now().isoformat(timespec="seconds") if hidden else None
        with self.records.begin() as connection:
            return connection.execute(update(NOTES).where(*chosen).values(hidden=now)).rowcount

    def clear(self, turn: Turn, key: str | None = None) -> int:
        """Remove the note with this key, or all notes if `key` is None. Return how many were removed."""
        which = owned_by(turn) if key is None else [*owned_by(turn), NOTES.c.key == key]
        with self.records.begin() as connection:
            return connection.execute(delete(NOTES).where(*which)).rowcount


def owned_by(turn: Turn) -> list[ColumnElement[bool]]:
    return [NOTES.c.user == turn.user, NOTES.c.agent == turn.agent]


def shown_to(turn: Turn) -> list[ColumnElement[bool]]:
    return [*owned_by(turn), NOTES.c.hidden.is_(None)]


def count(connection: Connection, turn: Turn) -> int:
    return connection.execute(select(func.count()).select_from(NOTES).where(*shown_to(turn))).scalar_one()


Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY)]
Value = Annotated[str, Field(max_length=MAX_VALUE)]


class ClearOutput(TypedDict):
    """The output of clear.

    Attributes:
        removed: The number of notes that were removed.
    """

    removed: int


class GetOutput(TypedDict):
    """The output of get."""

    key: str
    value: str


class SetOutput(TypedDict):
    """The output of set.

    Attributes:
        replaced: Whether a note with this key existed before.
    """

    key: str
    replaced: bool


@tool(
    category="memory",
    annotations=Annotations(idempotent=True),
    tier="low",
    side_effects=("records_write",),
    required_permission="user",
)
def scratchpad(
    ctx: CallContext, action: Literal["set", "get", "list", "clear"], key: Key | None = None, value: Value | None = None
) -> Produced[list[NoteRow] | ClearOutput | GetOutput | SetOutput]:
    """Keep short notes between turns, such as intermediate results, decisions and open tasks.

    `set` writes a note and replaces one with the same key, `get` reads a note, `list` shows all keys, and `clear`
    removes one note or, without a key, all of them. For long texts and for files that the user should see, use
    `file_system`.

    Args:
        action: What to do.
        key: Name of the note. Required for set and get.
        value: Text of the note. Required for set.
    """
    pad = ctx.need(Scratchpad)
    if action == "list":
        notes = pad.list(ctx.turn)
        lines = [f"- {note['key']} ({note['characters']} characters, {note['updated']})" for note in notes]
        return Produced(notes, "\n".join(lines) or "The scratchpad is empty.")
    if action == "clear":
        removed = pad.clear(ctx.turn, key)
        return Produced(
            {"removed": removed}, f"Removed {removed} note(s).", (f"cleared:{key or '*'}",) if removed else ()
        )
    if key is None:
        raise wrong_arguments(f"`key` is missing: {action} needs the name of a note.")
    if action == "get":
        found = pad.get(ctx.turn, key)
        if found is None:
            raise no_such_note(key, [str(note["key"]) for note in pad.list(ctx.turn)])
        return Produced({"key": key, "value": found}, found)
    if value is None:
        raise wrong_arguments("`value` is missing: set needs the text of the note.")
    replaced = pad.set(ctx.turn, key, value)
    return Produced(
        {"key": key, "replaced": replaced}, f"{'Replaced' if replaced else 'Noted'}: {key}", (f"noted:{key}",)
    )


def no_such_note(key: str, keys: list[str]) -> ToolFailure:
    existing = ", ".join(keys[:20]) or "none"
    return ToolFailure(
        f"There is no note {key!r}. Existing notes: {existing}.", reason="not_found", may_have_started=False
    )
