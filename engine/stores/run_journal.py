"""`RunJournal`: an append-only log of entries for each run of the loop, in a database of its own (LOOP-5).

An entry is committed before anything acts on it, so that a run whose process was killed can continue. One engine at a
time works on a run: it holds the run's lease, which the kernel ends together with the engine (`EngineLock`). Every
append names the number of the lease. A worker whose lease was taken over can therefore not add anything.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
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
from engine.contract.failure import ConfigError
from engine.stores.engine_lock import EngineLock
from engine.stores.entry_writer import Appended, EntryWriter, NewEntries, RunLease
from engine.stores.records import Records
from engine.stores.run_inbox import INBOX_SCHEMA, NewMessage, RunMessage, add_message, delete_messages, messages_of
from engine.stores.sqlite_file import connect, explained
from sandbox.secrets.redactor import Redactor

KEPT = 1_000  # runs
OPEN, WAITING, ENDED = "open", "waiting", "ended"
_TITLE_CHARACTERS = 200
NAME_CHARACTERS = 200  # of users and agents

_SCHEMA = MetaData()
_RUNS = Table(
    "runs",
    _SCHEMA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("created", String(40), nullable=False),
    Column("updated", String(40), nullable=False),
    Column("user", String(200), nullable=False),
    Column("agent", String(200), nullable=False),
    Column("message", Text, nullable=False),
    Column("setup", Text, nullable=False),  # JSON: what the loop needs to continue, beside the entries
    Column("previous", String(40), nullable=True),
    Column("forked_from", String(40), nullable=True),
    Column("state", String(10), nullable=False),
    Column("finish", String(30), nullable=False),
    Column("last", Integer, nullable=False),
    Column("holder", String(32), nullable=True),
    Column("lease", Integer, nullable=False),
    Column("cancel", Boolean, nullable=False),
)
_ENTRIES = Table(
    "run_entries",
    _SCHEMA,
    Column("run", String(40), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("ts", String(40), nullable=False),
    Column("worked_s", Float, nullable=False),
    Column("entry", Text, nullable=False),
)


class UnknownRun(ConfigError):
    """There is no run with this id."""


class RunBusy(ConfigError):
    """Another worker holds the lease of the run."""


class RunHasEnded(ConfigError):
    """A run that has ended cannot be resumed, and no message reaches it."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, without its entries.

    Attributes:
        created, updated: Times, UTC, ISO 8601.
        message: The start of the user's message.
        setup: A JSON object that only the loop interprets.
        previous: The run of the same conversation before this one, whose messages precede its own; "" if there is none.
        forked_from: The run whose first entries were copied to create this one; "" if it is no copy.
        state: `OPEN`, `WAITING` (for a person or the model) or `ENDED`.
        finish: Why it ended, or what it waits for; "" while it is open.
        last: The number of its last entry.
        working: Whether an engine is working on it.
    """

    id: str
    created: str
    updated: str
    user: str
    agent: str
    message: str
    setup: str
    previous: str
    forked_from: str
    state: str
    finish: str
    last: int
    working: bool

    @property
    def status(self) -> str:
        """One word for people: working, interrupted, waiting, or why the run ended."""
        if self.working:
            return "working"
        if self.state == OPEN:
            return "interrupted"
        return self.finish if self.state == ENDED else self.state


@dataclass(frozen=True, slots=True)
class RunEntryRow:
    """One entry of a run.

    Attributes:
        seq: Its number, from 1.
        worked_s: How long the run had been worked on in all, in seconds, without the time that it waited.
        entry: A JSON object.
    """

    seq: int
    ts: str
    worked_s: float
    entry: str


class RunJournal:
    """The runs of one home, shared by all its processes. Every method blocks."""

    def __init__(
        self,
        records: Records,
        lock: EngineLock,
        clock: Clock,
        writer: EntryWriter,
        *,
        kept: int = KEPT,
        redactor: Redactor | None = None,
    ) -> None:
        """Create missing tables.

        Args:
            records: The database.
            lock: The lock of this engine, which holds its leases.
            clock: The source of time.
            writer: Appends entries to the same database.
            kept: How many of the newest runs to keep. Runs that have not ended are kept in any case.
            redactor: Replaces the values of secrets in what is stored.
        """
        self._records = records
        self._lock = lock
        self._clock = clock
        self._writer = writer
        self._kept = kept
        self._redactor = redactor
        records.create(_SCHEMA)
        records.create(INBOX_SCHEMA)

    def redacted(self, text: str) -> str:
        """Return a text as it may be stored: with placeholders for the values of secrets."""
        return text if self._redactor is None else self._redactor.text(text)

    def create(
        self, run: str, message: str, setup: str, new: NewEntries, *, user: str, agent: str, previous: str = ""
    ) -> RunLease:
        """Add a run with its first entries, and return the lease of it. Delete runs beyond the limit."""
        row = {
            "id": run,
            "user": user[:NAME_CHARACTERS],
            "agent": agent[:NAME_CHARACTERS],
            "message": self.redacted(message)[:_TITLE_CHARACTERS],
            "setup": self.redacted(setup),
            "previous": previous or None,
        }
        with self._records.begin() as connection:
            self._insert(connection, row, new, holder=self._lock.id)
            self._sweep(connection)
        return RunLease(run, 1)

    def fork(self, source: str, run: str, upto: int, more: Sequence[str] = ()) -> None:
        """Add a run that begins with the first entries of another. No engine works on it yet.

        Args:
            source: The other run.
            run: The id of the new run.
            upto: The number of the last entry to copy.
            more: Further entries, which begin a new measurement of the time worked.

        Raises:
            UnknownRun: There is no such run.
        """
        with self._records.begin() as connection:
            found = _one(connection, source)
            row = {name: found[name] for name in ("user", "agent", "message", "setup", "previous")}
            kept = connection.execute(_entries_of(source, 0).where(_ENTRIES.c.seq <= upto)).mappings().all()
            copied = [(each["worked_s"], each["entry"]) for each in kept]
            new = NewEntries([*copied, *((0.0, entry) for entry in more)])
            self._insert(connection, row | {"id": run, "forked_from": source}, new, holder=None)

    def claim(self, run: str) -> RunLease:
        """Take the lease of a run that nobody works on.

        Raises:
            UnknownRun: There is no such run.
            RunBusy: A running engine holds the lease.
        """
        with self._records.begin() as connection:
            found = _one(connection, run)
            if found["holder"] is not None and self._lock.is_running(found["holder"]):
                raise RunBusy(
                    f"The run {run} is being worked on by another process. Watch it with knackbox runs follow {run}."
                )
            values = {"holder": self._lock.id, "lease": found["lease"] + 1, "cancel": False}
            connection.execute(update(_RUNS).where(_RUNS.c.id == run).values(values))
            return RunLease(run, values["lease"])

    def append(self, lease: RunLease, new: NewEntries) -> Appended:
        """Append entries.

        Raises:
            LeaseLost: Another worker has taken over the run. Nothing was added.
            UnreadMessages: There is a message after `new.read_upto`. Nothing was added.
            StoreBusy, ConfigError: The database cannot be written. Nothing was added.
        """
        return self._writer.append(lease, new, self._now())

    def release(self, lease: RunLease) -> None:
        """Give up a lease, so that another worker can take it. A lease that is no longer valid is ignored."""
        held = (_RUNS.c.id == lease.run) & (_RUNS.c.lease == lease.number)
        with self._records.begin() as connection:
            connection.execute(update(_RUNS).where(held).values(holder=None))

    def ask_to_cancel(self, run: str) -> None:
        """Ask the worker of a run to cancel it."""
        with self._records.begin() as connection:
            connection.execute(update(_RUNS).where(_RUNS.c.id == run).values(cancel=True))

    def asked_to_cancel(self, run: str) -> bool:
        """Return whether somebody has asked to cancel the run since its lease was taken."""
        with self._records.read() as connection:
            return bool(connection.execute(select(_RUNS.c.cancel).where(_RUNS.c.id == run)).scalar())

    def tell(self, run: str, message: NewMessage) -> int:
        """Send a message to a run, which it receives at the beginning of its next turn, and return its number.

        Raises:
            UnknownRun: There is no such run.
            RunHasEnded: The run has ended, so the message was not added.
        """
        with self._records.begin() as connection:
            found = _one(connection, run)
            if found["state"] == ENDED:
                raise RunHasEnded(
                    f"The run {run} has ended ({found['finish']}), so no message reaches it. To go on, copy it with "
                    f"knackbox runs fork {run} --message."
                )
            shown = replace(message, text=self.redacted(message.text))
            return add_message(connection, run, shown, self._now())

    def messages(self, run: str, after: int = 0) -> list[RunMessage]:
        """Return the messages sent to a run, in order, beginning after the one with the number `after`."""
        with self._records.read() as connection:
            return messages_of(connection, run, after)

    def one(self, run: str) -> RunRow:
        """Return a run by its id.

        Raises:
            UnknownRun: There is no such run.
        """
        with self._records.read() as connection:
            return self._row(_one(connection, run))

    def recent(self, limit: int = 20) -> list[RunRow]:
        """Return the newest runs, newest first."""
        with self._records.read() as connection:
            query = select(_RUNS).order_by(_RUNS.c.number.desc()).limit(limit)
            return [self._row(each) for each in connection.execute(query).mappings()]

    def latest(self, source: str, user: str, agent: str) -> RunRow | None:
        """Return the newest run that something began, such as ``"chat"``, for a user and an agent; None without one."""
        by = (_RUNS.c.user == user[:NAME_CHARACTERS]) & (_RUNS.c.agent == agent[:NAME_CHARACTERS])
        began = by & (func.json_extract(_RUNS.c.setup, "$.source") == source)
        with self._records.read() as connection:
            query = select(_RUNS).where(began).order_by(_RUNS.c.number.desc()).limit(1)
            found = connection.execute(query).mappings().one_or_none()
            return None if found is None else self._row(found)

    def of_project(self, project: str, limit: int = 20) -> list[RunRow]:
        """Return the newest runs that belong to a project, newest first."""
        belongs = func.json_extract(_RUNS.c.setup, "$.turn.project") == project
        with self._records.read() as connection:
            query = select(_RUNS).where(belongs).order_by(_RUNS.c.number.desc()).limit(limit)
            return [self._row(each) for each in connection.execute(query).mappings()]

    def interrupted(self, waiting_for: str = "") -> list[str]:
        """Return the ids of the runs that are open although no engine works on them, oldest first.

        Args:
            waiting_for: Also return the runs that wait for this.
        """
        waiting = (_RUNS.c.state == WAITING) & (_RUNS.c.finish == waiting_for)
        with self._records.read() as connection:
            query = select(_RUNS).where((_RUNS.c.state == OPEN) | waiting).order_by(_RUNS.c.number)
            rows = [self._row(each) for each in connection.execute(query).mappings()]
        return [row.id for row in rows if not row.working]

    def entries(self, run: str, after: int = 0) -> list[RunEntryRow]:
        """Return the entries of a run in order, beginning after the entry with the number `after`."""
        with self._records.read() as connection:
            found = connection.execute(_entries_of(run, after)).mappings()
            return [RunEntryRow(row["seq"], row["ts"], row["worked_s"], row["entry"]) for row in found]

    def _insert(self, connection: Connection, row: dict[str, Any], new: NewEntries, *, holder: str | None) -> None:
        now = self._now()
        usual = {"created": now, "updated": now, "state": new.state, "finish": new.finish, "lease": 1, "cancel": False}
        usual |= {"forked_from": None, "holder": holder, "last": len(new.entries)}
        connection.execute(insert(_RUNS), usual | row)
        rows = [
            {"run": row["id"], "seq": seq, "ts": now, "worked_s": worked_s, "entry": entry}
            for seq, (worked_s, entry) in enumerate(new.entries, 1)
        ]
        if rows:
            connection.execute(insert(_ENTRIES), rows)

    def _sweep(self, connection: Connection) -> None:
        """Delete old runs that have ended, unless a newer run continues their conversation."""
        newest = connection.execute(select(func.max(_RUNS.c.number))).scalar() or 0
        needed = select(_RUNS.c.previous).where(_RUNS.c.previous.is_not(None))
        old = (_RUNS.c.number <= newest - self._kept) & (_RUNS.c.state == ENDED) & _RUNS.c.id.not_in(needed)
        gone = list(connection.execute(select(_RUNS.c.id).where(old)).scalars())
        for run in gone:
            connection.execute(delete(_ENTRIES).where(_ENTRIES.c.run == run))
            delete_messages(connection, run)
            connection.execute(delete(_RUNS).where(_RUNS.c.id == run))

    def _row(self, found: RowMapping) -> RunRow:
        holder = found["holder"]
        return RunRow(
            found["id"],
            found["created"],
            found["updated"],
            found["user"],
            found["agent"],
            found["message"],
            found["setup"],
            found["previous"] or "",
            found["forked_from"] or "",
            found["state"],
            found["finish"],
            found["last"],
            working=holder is not None and found["state"] == OPEN and self._lock.is_running(holder),
        )

    def _now(self) -> str:
        return self._clock.now().isoformat()


def transcripts_contain(file: Path, texts: Sequence[str]) -> bool:
    """Return whether an entry or a message in this database contains one of the texts.

    A search of the file's bytes can miss a text, because SQLite splits long rows.
    """
    shapes = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in texts for ascii_only in (False, True)}
    # Arguments of calls are JSON texts within the JSON of the entry.
    shapes |= {json.dumps(shape, ensure_ascii=False)[1:-1] for shape in shapes}
    if not file.exists():
        return False
    with explained(file), closing(connect(file)) as connection:
        entries = "SELECT 1 FROM run_entries WHERE instr(entry, ?) LIMIT 1"
        messages = "SELECT 1 FROM run_inbox WHERE instr(text, ?1)"
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'child_runs'").fetchone():
            messages += " UNION ALL SELECT 1 FROM child_runs WHERE instr(message, ?1) OR instr(answer, ?1)"
        messages += " LIMIT 1"
        return any(connection.execute(entries, (shape,)).fetchone() for shape in sorted(shapes)) or any(
            connection.execute(messages, (text,)).fetchone() for text in texts
        )


def _one(connection: Connection, run: str) -> RowMapping:
    exact = connection.execute(select(_RUNS).where(_RUNS.c.id == run)).mappings().one_or_none()
    if exact is not None:
        return exact
    raise UnknownRun(f"There is no run {run!r}. knackbox runs list shows the runs of this home.")


def _entries_of(run: str, after: int) -> Any:
    return select(_ENTRIES).where((_ENTRIES.c.run == run) & (_ENTRIES.c.seq > after)).order_by(_ENTRIES.c.seq)
