"""`Records`: a SQL database (through SQLAlchemy Core), with counters that show processes each other's changes.

The default is SQLite, with a write-ahead log, so that readers never wait for the writer, and `synchronous=NORMAL`, so
that commits survive if the process dies. A power failure may lose the last commits, but does not damage the file.
Any other SQLAlchemy URL works if its database supports ``INSERT .. ON CONFLICT .. RETURNING``.

A *generation* is a named counter that every change to a certain set of data increments: ``"tools"`` counts changes to
the set of tools, ``"vectors:<collection>"`` counts changes to a vector collection. Reading a generation takes
microseconds as long as nothing changes.
"""

import errno
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy
from engine.stores.sqlite_file import Contents, DiskFull, SqliteFile, explained

WRITE_OPTION = "knackbox_write"
log = logging.getLogger(__name__)

SCHEMA = MetaData()
GENERATIONS = Table(
    "knackbox_generations",
    SCHEMA,
    Column("name", String(200), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
BUMP = text(
    "INSERT INTO knackbox_generations (name, value) VALUES (:name, :by) "
    "ON CONFLICT (name) DO UPDATE SET value = knackbox_generations.value + :by RETURNING value"
)


class Records:
    """A SQL database that threads and processes may share. Open it with `open`, and call `close` once."""

    def __init__(self, engine: Engine, file: SqliteFile | None) -> None:
        self._engine = engine
        self._file = file
        self._path = None if file is None else file.path
        self._writing = threading.local()
        self._watch_lock = threading.Lock()
        self._watch = None if file is None else file.connect()
        self._seen_version: int | None = None
        self._generations: dict[str, int] = {}

    @classmethod
    def open(
        cls, url: str, *, power_cuts: bool = False, secure_delete: bool = False, contents: Contents | None = None
    ) -> "Records":
        """Open, or create, the database at an SQLAlchemy URL such as ``sqlite:////home/me/records.db``.

        Args:
            url: The URL.
            power_cuts: Whether every commit must survive a power failure (SQLite only). Commits then wait for the disk.
            secure_delete: Whether deleted content is overwritten with zeros (SQLite only). `truncate_log` also removes
                it from the log.
            contents: A description of the data, for messages about its loss.

        Raises:
            ConfigError: The database is lost, damaged or unusable. The message names the file and says what to do. The
                file is not changed.
        """
        parsed = _parse(url)
        path = _sqlite_path(parsed)
        synchronous = "FULL" if power_cuts else "NORMAL"
        kept = contents or Contents()
        file = None if path is None else SqliteFile(path, kept, synchronous, secure_delete=secure_delete)
        with _opening(path, parsed):
            if file is None:
                engine = _create_engine(parsed)
            else:
                file.prepare()
                engine = create_engine(parsed, creator=file.connect)
                event.listen(engine, "begin", _begin_sqlite)
            records = cls(engine, file)
            records.create(SCHEMA)
        if records.read_only:
            log.warning("%s: the disk is full, so nothing can be changed. Free some space.", path)
        return records

    @property
    def read_only(self) -> bool:
        """Whether the file is open only for reading, because the disk is full. The next write tries again."""
        return self._file is not None and self._file.read_only

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name for the kind of database, such as ``"sqlite"``."""
        return self._engine.dialect.name

    def insert(self, table: Table) -> Any:
        """Return an INSERT statement in this database's dialect, which offers ``on_conflict_do_update``."""
        if self.dialect == "postgresql":
            from sqlalchemy.dialects import postgresql  # noqa: PLC0415 -- takes long to import, and most homes are SQLite

            return postgresql.insert(table)
        return sqlite.insert(table)

    def create(self, metadata: MetaData) -> None:
        """Create missing tables. Several processes may do so at once.

        Raises:
            DiskFull: Tables are missing, but the disk is full.
        """
        if self.read_only and not metadata.tables.keys() - inspect(self._engine).get_table_names():
            return
        with self.begin() as connection:
            metadata.create_all(connection)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction that holds the write lock from the start. It is committed unless an exception is raised.

        Raises:
            RuntimeError: This thread already has a transaction open, and would wait for itself forever.
            StoreBusy: Another process kept the database locked for too long.
            DiskFull: The disk is full. Nothing was changed.
            ConfigError: The file is damaged.
        """
        if getattr(self._writing, "active", False):
            raise RuntimeError("This thread already has a transaction open on the records; use its connection.")
        self._write_again()
        self._writing.active = True
        try:
            with (
                explained(self._path),
                self._engine.connect().execution_options(**{WRITE_OPTION: True}) as connection,
                connection.begin(),
            ):
                yield connection
        finally:
            self._writing.active = False

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reading. It sees the same data for as long as it is open.

        Raises:
            StoreBusy: Another process kept the database locked for too long.
            ConfigError: The file is damaged.
        """
        with explained(self._path), self._engine.connect() as connection:
            yield connection

    def generation(self, name: str) -> int:
        """Return the value of a counter, including the changes that other processes have committed.

        It is 0 if the counter was never incremented.
        """
        if self._watch is None:
            with self.read() as connection:
                found = connection.execute(select(GENERATIONS.c.value).where(GENERATIONS.c.name == name)).scalar()
                return int(found or 0)
        with self._watch_lock:
            try:
                # SQLite changes this number when any other connection commits: https://sqlite.org/pragma.html#pragma_data_version
                version = self._watch.execute("PRAGMA data_version").fetchone()[0]
                if version != self._seen_version:
                    rows = self._watch.execute("SELECT name, value FROM knackbox_generations").fetchall()
                    self._generations = dict(rows)
                    self._seen_version = version
            except sqlite3.Error:
                with explained(self._path):
                    raise
            return self._generations.get(name, 0)

    def bump(self, name: str, connection: Connection | None = None, *, by: int = 1) -> int:
        """Add to a counter and return the new value.

        Args:
            connection: An open transaction; None starts one.
        """
        if connection is not None:
            return int(connection.execute(BUMP, {"name": name, "by": by}).scalar_one())
        with self.begin() as own:
            return int(own.execute(BUMP, {"name": name, "by": by}).scalar_one())

    def truncate_log(self) -> bool:
        """Move the content of SQLite's write-ahead log into the database file and empty the log.

        Returns:
            False if the log could not be emptied because another connection is reading. Try again.
        """
        if self._file is None or self.read_only:
            return True
        with explained(self._path), closing(self._file.connect()) as connection:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def rewrite(self) -> bool:
        """Rewrite SQLite's file and empty its write-ahead log, so that neither contains parts of deleted rows.

        Overwriting deleted rows with zeros is not enough, because SQLite leaves copies of rows in unused parts of pages
        when it moves rows to other pages.

        Returns:
            False if another connection prevents it. Try again.
        """
        if self._file is None or self.read_only:
            return True
        with explained(self._path), closing(self._file.connect()) as connection:
            try:
                connection.execute("VACUUM")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                return False
        return self.truncate_log()

    def _write_again(self) -> None:
        """Make the database writable again after the disk was full.

        Raises:
            DiskFull: There is still no space.
        """
        if self._file is None or not self.read_only:
            return
        with self._watch_lock:
            if not self._file.prepare():
                raise self._file.full()
            self._engine.dispose()
            if self._watch is not None:
                self._watch.close()
            self._watch, self._seen_version = self._file.connect(), None

    def close(self) -> None:
        """Close all connections. Closing twice has no effect."""
        self._engine.dispose()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()


def missing_columns(connection: Connection, table: Table) -> list[str]:
    """Return the names of the columns that a table lacks because an earlier release created it."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    return [column.name for column in table.columns if column.name not in there]


def add_missing_columns(connection: Connection, table: Table) -> list[str]:
    """Add the columns that an earlier release's table lacks, and return their names. The columns must be nullable."""
    missing = missing_columns(connection, table)
    for name in missing:
        kind = table.c[name].type.compile(connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}"))
    return missing


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            f"The records URL {url!r} is invalid. Write it like sqlite:////path/to/records.db."
        ) from error


def _create_engine(url: URL) -> Engine:
    try:
        return create_engine(url, pool_pre_ping=True)
    except (SQLAlchemyError, ImportError) as error:  # unknown kind of database, or missing driver
        raise _unreachable(url, error) from error


def _sqlite_path(url: URL) -> Path | None:
    """Return the file of a SQLite URL; None for another kind of database."""
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise ConfigError("The records must be kept in a file: write the URL like sqlite:////path/to/records.db.")
    return Path(url.database)


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once, because a transaction that starts by reading may fail at its first write.
    writing = connection.get_execution_options().get(WRITE_OPTION, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def _opening(file: Path | None, url: URL) -> Iterator[None]:
    """Convert any error that prevents a database from being opened into a ConfigError."""
    try:
        with explained(file):
            yield
    except DBAPIError as error:
        raise _unreachable(url, error.orig) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _unreachable(url, error) from error
    except OSError as error:
        if file is None or isinstance(error, StoreBusy):
            raise
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"{file}: the disk is full. Nothing was changed. Free some space and try again.") from error
        raise ConfigError(f"{file}: cannot be used ({error.strerror or error}). Check its parent folder.") from error


def _unreachable(url: URL, cause: Any) -> ConfigError:
    shown = url.render_as_string(hide_password=True)
    return ConfigError(f"{shown}: the records cannot be opened ({' '.join(str(cause).split())[:200]}). Check the URL.")
