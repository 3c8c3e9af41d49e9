"""The SQLite file of a `StoredIndex`: its tables, its transactions, and the replacement of an unusable file."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.contract.failure import ConfigError

FORMAT = "2"
FREE = 0xFFFFFFFF  # the owner of a vector position that is not in use
VECTOR_CHUNK = 64  # vectors in one row; a change rewrites a whole row
_VALUES_AT_ONCE = 500  # the most values in one query
POSTING_CHUNK = 4096  # slots whose postings share a row
_UNUSABLE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CODE = 0xFF  # the low byte of SQLite's extended result code is the primary result code
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    slot INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, called TEXT NOT NULL, folded TEXT NOT NULL,
    head INTEGER NOT NULL, terms BLOB NOT NULL, words BLOB NOT NULL, vectors BLOB NOT NULL, hashes TEXT NOT NULL,
    hashed BLOB NOT NULL
);
CREATE INDEX documents_by_name ON documents (folded);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE, holders INTEGER NOT NULL);
CREATE TABLE words (number INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, term INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE TABLE postings (term INTEGER, chunk INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, chunk)) WITHOUT ROWID;
CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, owners BLOB NOT NULL, data BLOB NOT NULL);
CREATE INDEX vectors_by_epoch ON vectors (epoch);
CREATE TABLE models (
    version INTEGER PRIMARY KEY, samples INTEGER NOT NULL, documents INTEGER NOT NULL, matrix BLOB NOT NULL
);
"""

log = logging.getLogger(__name__)


class IndexFile:
    """The SQLite file of an index. Not thread-safe; `StoredIndex` holds a lock while it uses it."""

    def __init__(self, path: Path, made_for: str) -> None:
        """Create the object. The file is opened at the first use.

        Args:
            path: The file.
            made_for: Identifies what the content depends on, such as the embedder. A file that was made for something
                else is replaced.
        """
        self._path = path
        self._made_for = f"{FORMAT}:{made_for}"
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """Open a transaction for reading.

        Yields:
            The connection, and whether it was reopened, for instance because the file was replaced.

        Raises:
            ConfigError: The file can neither be used nor replaced; or it was damaged and has been replaced.
        """
        connection, fresh = self._opened()
        try:
            connection.execute("BEGIN")
            try:
                yield connection, fresh
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            self._replace_if_damaged(error)
            raise ConfigError(
                f"{self._path}: the search index was damaged and is being rebuilt. Try again later."
            ) from error

    def write(self, action: Callable[[sqlite3.Connection], None]) -> bool:
        """Run `action` in a transaction.

        Returns:
            False if nothing was written, because another process is writing or the file was damaged and was replaced.
        """
        connection, _ = self._opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _code(error) in _BUSY:
                return False
            self._replace_if_damaged(error)
            return False
        try:
            action(connection)
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._replace_if_damaged(error)
            return False
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return True

    def replace(self) -> None:
        """Delete the file; the next use creates an empty one. Other processes notice this at their next use."""
        self.close()
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{end}").unlink()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> tuple[sqlite3.Connection, bool]:
        if self._connection is not None and _inode(self._path) == self._inode:
            return self._connection, False
        self.close()
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            self._replace_if_damaged(error)
            try:
                self._connection = self._open()
            except sqlite3.DatabaseError as again:
                raise ConfigError(
                    f"{self._path}: the search index cannot be stored ({again}). Check the disk and the permissions."
                ) from again
        self._inode = _inode(self._path)
        return self._connection, True

    def _open(self) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=0.2, isolation_level=None, check_same_thread=False)
        try:
            # Everything here can be rebuilt, so a commit need not wait for the disk.
            connection.execute("PRAGMA synchronous=OFF")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                for statement in _TABLES.strip().split(";\n"):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('made_for', ?)", (self._made_for,))
            connection.execute("COMMIT")
            made_for = connection.execute("SELECT value FROM meta WHERE key = 'made_for'").fetchone()
        except BaseException:
            connection.close()
            raise
        if made_for is None or made_for[0] != self._made_for:
            connection.close()
            self.replace()
            return self._open()
        return connection

    def _replace_if_damaged(self, error: sqlite3.DatabaseError) -> None:
        """Replace the file if this error means that it is damaged.

        Raises:
            ConfigError: The error has another cause.
        """
        if _code(error) in _BUSY:
            raise ConfigError(f"{self._path}: another process has locked the search index. Try again.") from error
        if _code(error) in _UNUSABLE:
            log.warning("%s: the search index cannot be used (%s); it is rebuilt.", self._path, error)
            self.replace()
        else:
            raise ConfigError(
                f"{self._path}: the search index cannot be used ({error}). Check the disk and the permissions."
            ) from error


def read_meta(connection: sqlite3.Connection, key: str) -> str:
    """Return a value of the table `meta`; "" if it is missing."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return "" if found is None else str(found[0])


def select_in(connection: sqlite3.Connection, query: str, values: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows in which a column has one of the values.

    Args:
        query: Must end with the name of that column.
    """
    every = list(values)
    for start in range(0, len(every), _VALUES_AT_ONCE):
        some = every[start : start + _VALUES_AT_ONCE]
        yield from connection.execute(f"{query} IN ({','.join('?' * len(some))})", some).fetchall()


def _code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & _CODE


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
