"""Creates, checks and opens the file of an SQLite database, and describes its errors in a line that says what to do."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from engine.contract.failure import ConfigError
from engine.stores.atomic import TEMPORARY, publish_file
from engine.stores.locks import FileLock, StoreBusy

BUSY_TIMEOUT_S = 15.0
PRIVATE = 0o600
_QUICK_CHECK_BYTES = 16 << 20  # a check of 16 MiB takes about 20 ms; in larger files damage is found when it is read
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_UNWRITABLE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_PRIMARY_CODE = 0xFF  # the low byte of SQLite's extended result code is the primary result code


@dataclass(frozen=True, slots=True)
class Contents:
    """Describes the data in a database, for messages about its loss.

    Attributes:
        held: What is lost with the database, such as ``"the log of calls"``.
        kept: What is stored elsewhere and therefore not lost.
    """

    held: str = "its rows"
    kept: str = "everything outside the file"


class DiskFull(ConfigError):
    """A write failed because the disk is full. Nothing was changed."""


class SqliteFile:
    """An SQLite database file. It is opened read-only while the disk is full.

    Even for reading, SQLite needs a few KiB of disk space for its own files. If there is no space left and the
    write-ahead log is empty, the file is opened as immutable (https://sqlite.org/uri.html). Since the log is empty,
    the file then contains all data.
    """

    def __init__(
        self, path: Path, contents: Contents, synchronous: str = "NORMAL", *, secure_delete: bool = False
    ) -> None:
        """Create the object without accessing the file.

        Args:
            path: The file.
            contents: A description of the data, for messages about its loss.
            synchronous: SQLite's ``synchronous`` setting. ``"FULL"`` makes every commit survive a power failure.
            secure_delete: Whether deleted content is overwritten with zeros.
        """
        self.path = path
        self.read_only = False
        self._contents = contents
        self._synchronous = synchronous
        self._secure_delete = secure_delete

    def prepare(self) -> bool:
        """Create or check the file, as the function `prepare` does, and return whether it is writable.

        Raises:
            ConfigError: The file is lost, damaged or unusable.
            DiskFull: The disk is full, and the file cannot be read without writing.
        """
        try:
            with explained(self.path):
                prepare(self.path, self._contents)
                with closing(connect(self.path)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("ROLLBACK")
        except DiskFull:
            if not _size(self.path) or _size(log_of(self.path)):
                raise
            self.read_only = True
        else:
            self.read_only = False
        return not self.read_only

    def connect(self) -> sqlite3.Connection:
        """Open a connection: for reading and writing if possible, otherwise for reading."""
        if not self.read_only:
            return connect(self.path, self._synchronous, secure_delete=self._secure_delete)
        uri = f"{self.path.absolute().as_uri()}?immutable=1"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    def full(self) -> DiskFull:
        """Return the error for a write while the disk is full."""
        return _full(self.path)


def connect(file: Path, synchronous: str = "NORMAL", *, secure_delete: bool = False) -> sqlite3.Connection:
    """Open a connection without automatic transactions. The caller must not use it in several threads at once."""
    connection = sqlite3.connect(file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("PRAGMA foreign_keys=ON")
    if secure_delete:
        connection.execute("PRAGMA secure_delete=ON")
    return connection


def prepare(file: Path, contents: Contents) -> None:
    """Create the file with a write-ahead log, or check the existing file. Only one process at a time does this.

    A new database is created under a temporary name, so an empty file is always a damaged database, never a new one.

    Raises:
        ConfigError: The file is empty or damaged, or it is missing although its log exists. Nothing is changed.
    """
    with lock(file).exclusive():
        if not file.exists():
            if _size(log_of(file)):
                raise _lost(file, contents, f"is missing, but its log {log_of(file).name} exists")
            _create(file)
            return
        if not _size(file):
            raise _lost(file, contents, "is empty (0 bytes)")
        with closing(connect(file)) as connection:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            if _size(file) <= _QUICK_CHECK_BYTES:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise _damaged(file, verdict)


def lock(file: Path) -> FileLock:
    """Return the lock to hold while the database is opened or its file is replaced."""
    return FileLock(file.with_name(file.name + ".lock"))


def log_of(file: Path) -> Path:
    """Return the path of a database's write-ahead log."""
    return file.with_name(file.name + "-wal")


@contextmanager
def explained(file: Path | None) -> Iterator[None]:
    """Convert database errors that a person can fix to errors that say how. Other errors propagate unchanged.

    Args:
        file: The SQLite database; None for another kind of database.

    Raises:
        ConfigError: The file is damaged or unusable.
        DiskFull: The disk is full.
        StoreBusy: Another process kept the database locked for too long.
    """
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        code = (getattr(cause, "sqlite_errorcode", None) or 0) & _PRIMARY_CODE
        if file is None:
            raise
        if code in _DAMAGED:
            raise _damaged(file, cause) from error
        if code in _BUSY:
            raise StoreBusy(
                f"{file}: another process has been writing for {BUSY_TIMEOUT_S:g} s. Wait for it or stop it, and retry."
            ) from error
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and is_full(file.parent)):
            raise _full(file) from error
        if code in _UNWRITABLE:
            raise ConfigError(
                f"{file}: cannot be opened for writing ({cause}). Check the folder's permissions."
            ) from error
        raise


def _create(file: Path) -> None:
    temporary = file.with_name(f"{TEMPORARY}{file.name}")  # a fixed name is safe, since the caller holds the lock
    try:
        temporary.unlink(missing_ok=True)  # left over from a process that was killed
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        with closing(connect(temporary)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        publish_file(temporary, file)
    finally:
        for path in (temporary, log_of(temporary), temporary.with_name(temporary.name + "-shm")):
            path.unlink(missing_ok=True)


def _full(file: Path) -> DiskFull:
    return DiskFull(f"{file}: the disk is full. Nothing was changed. Free some space and try again.")


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def is_full(folder: Path) -> bool:
    """Return whether the disk is full. SQLite reports some writes to a full disk as general I/O errors."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize < 1 << 16


def _lost(file: Path, contents: Contents, what: str) -> ConfigError:
    return ConfigError(
        f"{file}: the database {what}. Lost: {contents.held}. Not lost: {contents.kept}. Nothing was changed. "
        f"`knackbox restore` lists the backups and restores one. To start without them, move {file.name} and "
        f"{log_of(file).name} away, then run `knackbox skills reindex`."
    )


def _damaged(file: Path, detail: object) -> ConfigError:
    cause = " ".join(str(detail).split())[:200]
    return ConfigError(
        f"{file}: the database is damaged ({cause}). Nothing was changed. `knackbox restore` lists the backups and "
        f"restores one. Without a backup, move {file.name}, {file.name}-wal and {file.name}-shm away, then run "
        "`knackbox skills reindex` to rebuild the data from the skill folders."
    )
