"""`EntryWriter`: appends entries to runs through a connection of its own, because this is on the path of every call.

A commit through SQLAlchemy takes 190 microseconds, of which SQLite needs 17.
"""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.stores.sqlite_file import connect, explained

_TAKE_PLACES = (
    "UPDATE runs SET last = last + ?, updated = ?, state = ?, finish = ? WHERE id = ? AND lease = ? "
    "RETURNING last, cancel, (SELECT coalesce(max(number), 0) FROM run_inbox WHERE run = runs.id)"
)
_UNREAD = "SELECT 1 FROM run_inbox WHERE run = ? AND number > ? AND NOT stop LIMIT 1"
_ADD = "INSERT INTO run_entries (run, seq, ts, worked_s, entry) VALUES (?, ?, ?, ?, ?)"


class LeaseLost(Exception):
    """Another worker has taken over the run, so this one must stop."""


class UnreadMessages(Exception):
    """A message was sent to the run before it could end, so it must go on."""


@dataclass(frozen=True, slots=True)
class RunLease:
    """The right to work on a run. At most one lease of a run is valid, the one with the highest number."""

    run: str
    number: int


@dataclass(frozen=True, slots=True)
class NewEntries:
    """Entries to append to a run in one transaction, with the state of the run after them.

    Attributes:
        entries: (seconds worked, JSON object) of each entry.
        lasting: Whether they must survive a power failure. The commit then waits for the disk.
        read_upto: If given, nothing is appended if the inbox of the run has a message with a higher number, other than
            one that stops the run.
    """

    entries: Sequence[tuple[float, str]]
    state: str = "open"
    finish: str = ""
    lasting: bool = False
    read_upto: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """What the worker of a run learns when it appends entries.

    Attributes:
        cancel_wanted: Whether somebody has asked to cancel the run.
        newest_message: The number of the newest message to the run; 0 if there is none.
    """

    cancel_wanted: bool
    newest_message: int


class EntryWriter:
    """Appends entries to the runs in an SQLite file. Threads may share it. Every method blocks."""

    def __init__(self, file: Path) -> None:
        """Create the object. The connections are opened when they are needed.

        Args:
            file: The database, with the tables of `RunJournal`.
        """
        self._file = file
        self._connections: dict[bool, sqlite3.Connection] = {}
        self._lock = threading.Lock()

    def append(self, lease: RunLease, new: NewEntries, now: str) -> Appended:
        """Append entries at the time `now`.

        Raises:
            LeaseLost: Another worker has taken over the run. Nothing was added.
            UnreadMessages: There is a message after `new.read_upto`. Nothing was added.
            StoreBusy, ConfigError: The file cannot be written. Nothing was added.
        """
        with self._lock, explained(self._file):
            connection = self._connection(lasting=new.lasting)
            connection.execute("BEGIN IMMEDIATE")
            try:
                count = len(new.entries)
                values = (count, now, new.state, new.finish, lease.run, lease.number)
                row = connection.execute(_TAKE_PLACES, values).fetchone()
                if row is None:
                    raise LeaseLost(f"Another process has taken over the run {lease.run}.")  # noqa: TRY301 -- rolls back
                if new.read_upto is not None and connection.execute(_UNREAD, (lease.run, new.read_upto)).fetchone():
                    raise UnreadMessages(f"A message was sent to the run {lease.run}.")  # noqa: TRY301 -- rolls back
                first = row[0] - count + 1
                rows = [(lease.run, first + at, now, *entry) for at, entry in enumerate(new.entries)]
                connection.executemany(_ADD, rows)
                self.commit(connection)
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return Appended(bool(row[1]), row[2])

    @staticmethod
    def commit(connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def _connection(self, *, lasting: bool) -> sqlite3.Connection:
        if lasting not in self._connections:
            self._connections[lasting] = connect(self._file, "FULL" if lasting else "NORMAL", secure_delete=True)
        return self._connections[lasting]
