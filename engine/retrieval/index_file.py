"""The SQLite file of an index: its transactions, the replacement of an unusable file, and erasing what was deleted."""

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

_VALUES_AT_ONCE = 500  # the most values in one query
_UNUSABLE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CODE = 0xFF  # the low byte of SQLite's extended result code is the primary result code
_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_ERASE_POLL_S = 0.02

log = logging.getLogger(__name__)


class IndexFile:
    """The SQLite file of an index. Not thread-safe; the index holds a lock while it uses it."""

    def __init__(self, path: Path, made_for: str, tables: str, *, secure_delete: bool = False) -> None:
        """Create the object. The file is opened on first use.

        Args:
            path: The file.
            made_for: Identifies the format and the embedder. A file with a different value is replaced.
            tables: The statements that create the tables and indexes besides `meta`, each followed by a semicolon and
                a line break.
            secure_delete: Whether deleted content is overwritten with zeros.
        """
        self._path = path
        self._made_for = made_for
        self._statements = [_META, *tables.strip().removesuffix(";").split(";\n")]
        self._secure_delete = secure_delete
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

    def erase_deleted(self, deadline_s: float) -> None:
        """Rewrite the file and empty its write-ahead log, so that neither contains deleted content.

        Args:
            deadline_s: How long to wait for other processes that are reading or writing.

        Raises:
            StoreBusy: Other processes used the file until the deadline.
            ConfigError: The file can neither be used nor replaced.
        """
        until = time.monotonic() + deadline_s
        while not self._try_to_erase():
            if time.monotonic() > until:
                raise StoreBusy(
                    f"{self._path}: other processes have been using the search index for {deadline_s:g} s, so deleted "
                    "content could not be erased. Try again, or stop these processes."
                )
            time.sleep(_ERASE_POLL_S)

    def _try_to_erase(self) -> bool:
        connection, _ = self._opened()
        try:
            connection.execute("VACUUM")
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if _code(error) not in _BUSY:
                self._replace_if_damaged(error)  # a new file has nothing to erase
            return False

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
        while True:
            self._inode = _inode(self._path)
            connection = self._reopened()
            if _inode(self._path) == self._inode:
                self._connection = connection
                return connection, True
            connection.close()  # the file was created or replaced meanwhile, perhaps by another process

    def _reopened(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            self._replace_if_damaged(error)
        try:
            return self._open()
        except sqlite3.DatabaseError as again:
            raise ConfigError(
                f"{self._path}: the search index cannot be stored ({again}). Check the disk and the permissions."
            ) from again

    def _open(self) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=0.2, isolation_level=None, check_same_thread=False)
        try:
            # Everything here can be rebuilt, so a commit need not wait for the disk.
            connection.execute("PRAGMA synchronous=OFF")
            if self._secure_delete:
                connection.execute("PRAGMA secure_delete=ON")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                for statement in self._statements:
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
            log.warning("%s: the search index cannot be used (%s) and is being rebuilt.", self._path, error)
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
