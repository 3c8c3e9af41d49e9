"""`ChangeStore`: the database of changes (``undo.db``): the files as last scanned, running calls, and change sets."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.stores.sqlite_file import Contents, connect, explained, prepare
from engine.stores.undo.change_sets import ChangeSet, ChangingCall
from engine.stores.undo.file_state import FileKind, FileState, KnownFile
from engine.stores.undo.scan import StateChange, WorkspaceScan

CONTENTS = Contents(
    held="the record of what programs changed in workspaces, so that earlier changes cannot be undone",
    kept="the workspaces themselves, skills, the records, events and runs",
)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS workspaces (
    id INTEGER PRIMARY KEY, root BLOB NOT NULL UNIQUE, generation INTEGER NOT NULL, used TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    workspace INTEGER NOT NULL, path BLOB NOT NULL, kind TEXT NOT NULL, mode INTEGER NOT NULL, size INTEGER NOT NULL,
    content BLOB NOT NULL, inode INTEGER NOT NULL, changed_ns INTEGER NOT NULL, settled INTEGER NOT NULL,
    PRIMARY KEY (workspace, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workspace INTEGER NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL,
    run TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, ts TEXT NOT NULL, programs INTEGER NOT NULL,
    engine TEXT);
CREATE INDEX IF NOT EXISTS calls_running ON calls (workspace) WHERE engine IS NOT NULL;
CREATE TABLE IF NOT EXISTS change_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workspace INTEGER NOT NULL, ts TEXT NOT NULL, undone TEXT NOT NULL,
    doubt TEXT NOT NULL, complete INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS undos_at_work ON change_sets (workspace) WHERE NOT complete;
CREATE TABLE IF NOT EXISTS changed_by (change_set INTEGER NOT NULL, call INTEGER NOT NULL,
    PRIMARY KEY (change_set, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    change_set INTEGER NOT NULL, path BLOB NOT NULL,
    kind TEXT, mode INTEGER, size INTEGER, content BLOB,
    new_kind TEXT, new_mode INTEGER, new_size INTEGER, new_content BLOB,
    PRIMARY KEY (change_set, path)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """A call whose end has not been recorded.

    Attributes:
        number: The number of its row.
        engine: The id of the engine that makes it (`EngineLock`).
    """

    number: int
    call: ChangingCall
    engine: str


class ChangeStore:
    """The database of changes. Threads and processes share it. Every method blocks."""

    def __init__(self, path: Path) -> None:
        """Open or create the database.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        self._path = path
        self._guard = threading.Lock()
        with explained(path):
            prepare(path, CONTENTS)
            self._connection = connect(path, secure_delete=True)
            self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        with self._guard:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator["ChangeRows"]:
        """Begin a transaction. It is committed at the end of the block, unless the block raises.

        Raises:
            StoreBusy, ConfigError: The database cannot be written. Nothing was changed.
        """
        with self._guard, explained(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield ChangeRows(self._connection)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator["ChangeRows"]:
        """Read a consistent state."""
        with self._guard, explained(self._path):
            self._connection.execute("BEGIN")
            try:
                yield ChangeRows(self._connection)
            finally:
                self._connection.execute("ROLLBACK")


class ChangeRows:
    """The rows of the database within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def workspace(self, root: Path, now: str) -> int:
        """Return the number of a workspace. It is added if it is unknown."""
        name = os.fsencode(root)
        found = self.connection.execute("SELECT id FROM workspaces WHERE root = ?", (name,)).fetchone()
        if found is None:
            row = (name, now)
            found = self.connection.execute(
                "INSERT INTO workspaces (root, generation, used) VALUES (?, 0, ?) RETURNING id", row
            ).fetchone()
        return int(found[0])

    def roots(self, *, unfinished: bool = False) -> list[Path]:
        """Return the workspaces.

        Args:
            unfinished: Only those with calls or an undo that have not ended.
        """
        where = (
            "WHERE id IN (SELECT workspace FROM calls WHERE engine IS NOT NULL "
            "UNION SELECT workspace FROM change_sets WHERE NOT complete)"
        )
        query = f"SELECT root FROM workspaces {where if unfinished else ''}"  # noqa: S608 -- a constant
        return [Path(os.fsdecode(root)) for (root,) in self.connection.execute(query)]

    def generation(self, workspace: int) -> int:
        """Return how often the files of a workspace have been updated."""
        query = "SELECT generation FROM workspaces WHERE id = ?"
        return int(self.connection.execute(query, (workspace,)).fetchone()[0])

    def files(self, workspace: int) -> dict[str, KnownFile]:
        """Return the files of the last scan by path."""
        rows = self.connection.execute(
            "SELECT path, kind, mode, size, content, inode, changed_ns, settled FROM files WHERE workspace = ?",
            (workspace,),
        )
        return {
            os.fsdecode(path): KnownFile(FileState(kind, mode, size, content), inode, changed, bool(settled))
            for path, kind, mode, size, content, inode, changed, settled in rows
        }

    def update(self, workspace: int, scan: WorkspaceScan, now: str) -> int:
        """Store what a scan has found, and return the new generation."""
        gone = [(workspace, os.fsencode(path)) for path in scan.updated if path not in scan.files]
        self.connection.executemany("DELETE FROM files WHERE workspace = ? AND path = ?", gone)
        rows = [_file_row(workspace, path, scan.files[path]) for path in scan.updated if path in scan.files]
        self.connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        query = "UPDATE workspaces SET generation = generation + 1, used = ? WHERE id = ? RETURNING generation"
        return int(self.connection.execute(query, (now, workspace)).fetchone()[0])

    def begin_call(self, workspace: int, call: ChangingCall, engine: str) -> int:
        """Add a running call, and return its number."""
        self.connection.execute("UPDATE workspaces SET used = ? WHERE id = ?", (call.ts, workspace))
        row = (workspace, call.call_id, call.tool, call.run, call.user, call.agent, call.ts, call.programs, engine)
        query = (
            "INSERT INTO calls (workspace, call_id, tool, run, user, agent, ts, programs, engine) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        return int(self.connection.execute(query, row).fetchone()[0])

    def running(self, workspace: int) -> list[UnfinishedCall]:
        """Return the calls that have not ended."""
        query = (
            "SELECT id, call_id, tool, run, user, agent, ts, programs, engine FROM calls "
            "WHERE workspace = ? AND engine IS NOT NULL"
        )
        return [
            UnfinishedCall(number, _call(row), engine)
            for number, *row, engine in self.connection.execute(query, (workspace,))
        ]

    def end_calls(self, numbers: Iterable[int]) -> None:
        """Record that calls have ended. Those that changed nothing are deleted."""
        ended = [(number,) for number in numbers]
        self.connection.executemany("UPDATE calls SET engine = NULL WHERE id = ?", ended)
        self.connection.executemany(
            "DELETE FROM calls WHERE id = ? AND NOT EXISTS (SELECT 1 FROM changed_by WHERE call = calls.id)", ended
        )

    def add(
        self,
        workspace: int,
        changes: Sequence[StateChange],
        now: str,
        *,
        calls: Iterable[int] = (),
        undone: str = "",
        doubt: str = "",
        complete: bool = True,
    ) -> int:
        """Add a change set, and return its number."""
        row = (workspace, now, undone, doubt, complete)
        query = "INSERT INTO change_sets (workspace, ts, undone, doubt, complete) VALUES (?, ?, ?, ?, ?) RETURNING id"
        number = int(self.connection.execute(query, row).fetchone()[0])
        self.connection.executemany("INSERT INTO changed_by VALUES (?, ?)", [(number, call) for call in calls])
        rows = [(number, os.fsencode(each.path), *_state(each.before), *_state(each.after)) for each in changes]
        self.connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return number

    def finish(self, number: int, happened: Iterable[StateChange]) -> None:
        """Record which of the planned changes of an undo were made. Without any, its change set is deleted."""
        made = {each.path for each in happened}
        planned = self.connection.execute("SELECT path FROM changes WHERE change_set = ?", (number,)).fetchall()
        others = [(number, path) for (path,) in planned if os.fsdecode(path) not in made]
        self.connection.executemany("DELETE FROM changes WHERE change_set = ? AND path = ?", others)
        self.connection.execute("UPDATE change_sets SET complete = 1 WHERE id = ?", (number,))
        if not made:
            self.delete([number])

    def change_sets(self, workspace: int | None = None, *, incomplete: bool = False) -> list[ChangeSet]:
        """Return the change sets, oldest first."""
        where = "WHERE (?1 IS NULL OR workspace = ?1) AND (NOT ?2 OR NOT complete)"
        query = (
            "SELECT s.id, root, ts, undone, doubt, complete FROM change_sets s "  # noqa: S608 -- constants
            f"JOIN workspaces w ON w.id = s.workspace {where} ORDER BY s.id"
        )
        sets = self.connection.execute(query, (workspace, incomplete)).fetchall()
        return [
            ChangeSet(
                number,
                os.fsdecode(root),
                ts,
                self._calls(number),
                undone,
                doubt,
                bool(complete),
                self._changes(number),
            )
            for number, root, ts, undone, doubt, complete in sets
        ]

    def needed_digests(self) -> set[bytes]:
        """Return the digests of the contents that a file or a change needs."""
        query = (
            "SELECT content FROM files WHERE kind = 'file' UNION SELECT content FROM changes WHERE kind = 'file' "
            "UNION SELECT new_content FROM changes WHERE new_kind = 'file'"
        )
        return {digest for (digest,) in self.connection.execute(query)}

    def oldest_change_sets(self, share: float = 0.1) -> list[int]:
        """Return the numbers of the oldest change sets: this share of all, and at least one if there is any."""
        count = self.connection.execute("SELECT count(*) FROM change_sets WHERE complete").fetchone()[0]
        query = "SELECT id FROM change_sets WHERE complete ORDER BY id LIMIT ?"
        return [number for (number,) in self.connection.execute(query, (max(1, int(share * count)),))]

    def forget(self, oldest: str, is_gone: Callable[[str], bool]) -> None:
        """Delete change sets made before `oldest`, and the files of workspaces that were last used before, or are gone.

        Args:
            oldest: A time, UTC, ISO 8601.
            is_gone: Returns whether a workspace no longer exists.
        """
        query = "SELECT id FROM change_sets WHERE complete AND ts < ?"
        self.delete(number for (number,) in self.connection.execute(query, (oldest,)).fetchall())
        idle = (
            "SELECT id, root, used FROM workspaces WHERE id NOT IN (SELECT workspace FROM calls WHERE engine NOTNULL)"
        )
        for number, root, used in self.connection.execute(idle).fetchall():
            if used < oldest or is_gone(os.fsdecode(root)):
                self.connection.execute("DELETE FROM files WHERE workspace = ?", (number,))
                self.connection.execute("UPDATE workspaces SET generation = generation + 1 WHERE id = ?", (number,))

    def delete(self, numbers: Iterable[int]) -> None:
        """Delete change sets, and the calls that have no others."""
        rows = [(number,) for number in numbers]
        self.connection.executemany("DELETE FROM changes WHERE change_set = ?", rows)
        self.connection.executemany("DELETE FROM changed_by WHERE change_set = ?", rows)
        self.connection.executemany("DELETE FROM change_sets WHERE id = ?", rows)
        self.connection.execute("DELETE FROM calls WHERE engine IS NULL AND id NOT IN (SELECT call FROM changed_by)")

    def _calls(self, change_set: int) -> tuple[ChangingCall, ...]:
        query = (
            "SELECT call_id, tool, run, user, agent, ts, programs FROM changed_by "
            "JOIN calls ON calls.id = call WHERE change_set = ? ORDER BY call"
        )
        return tuple(_call(row) for row in self.connection.execute(query, (change_set,)))

    def _changes(self, change_set: int) -> tuple[StateChange, ...]:
        rows = self.connection.execute("SELECT * FROM changes WHERE change_set = ? ORDER BY path", (change_set,))
        return tuple(StateChange(os.fsdecode(path), _read(states[:4]), _read(states[4:])) for _, path, *states in rows)


def _file_row(workspace: int, path: str, known: KnownFile) -> tuple[Any, ...]:
    return (workspace, os.fsencode(path), *_state(known.state), known.inode, known.changed_ns, known.settled)


def _state(state: FileState | None) -> tuple[FileKind | None, int | None, int | None, bytes | None]:
    return (None, None, None, None) if state is None else (state.kind, state.mode, state.size, state.content)


def _read(row: Sequence[Any]) -> FileState | None:
    kind, mode, size, content = row
    return None if kind is None else FileState(kind, mode, size, content)


def _call(row: Sequence[Any]) -> ChangingCall:
    call_id, tool, run, user, agent, ts, programs = row
    return ChangingCall(call_id, tool, run, user, agent, ts, bool(programs))
