"""`DatabaseSessions`: runs work in database sessions. If a call is cancelled, the database ends its statement.

Each call has a connection of its own, which is closed afterwards. Whatever a statement leaves in its session, such as
advisory locks, temporary tables or changed settings, ends with it.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from builtin_tools.database.failures import connection_failure
from builtin_tools.database.settings import DatabaseSettings, DsnSource
from engine.contract.failure import ConfigError
from engine.dispatch.refusals import not_configured

T = TypeVar("T")

APPLICATION = "knackbox"  # the name in pg_stat_activity
CANCEL_S = 5.0  # seconds for which the end of a cancelled statement is awaited; afterwards its connection is cut
# Settings of the transaction, with units that PostgreSQL knows. A server that does not know a setting ignores it.
_CHECK_CONNECTION = {"client_connection_check_interval": "2s"}  # a backend ends its statement if the engine was killed
_ALWAYS = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
_SET = """
SELECT pg_catalog.set_config(known.name, given.value, {local})
FROM pg_catalog.pg_settings AS known
JOIN pg_catalog.jsonb_each_text(%s::pg_catalog.jsonb) AS given(name, value) ON given.name = known.name
"""


@dataclass(slots=True)
class Session:
    """A connection during one call. Only the thread of the call uses it; `stop` and `cut` may be called by others."""

    connection: "psycopg.Connection[tuple[Any, ...]]"
    settings: DatabaseSettings

    def begin(self, *, read_only: bool, most_s: float = 0) -> None:
        """Begin a transaction with the limits of the configuration.

        Args:
            read_only: Whether the database refuses changes. This cannot be undone within the transaction.
            most_s: A lower statement timeout in seconds; 0 for that of the configuration.
        """
        limit = self.settings.statement_timeout_s
        limit = min(limit, most_s) if most_s else limit
        timeout = f"{max(1, round(limit * 1000))}ms"
        chosen = {
            "statement_timeout": timeout,
            "lock_timeout": f"{max(1, round(self.settings.lock_timeout_s * 1000))}ms",
            "idle_in_transaction_session_timeout": "120s",
        }
        if read_only:
            self._set({"default_transaction_read_only": "on"}, local=False)
        self.connection.execute(f"BEGIN TRANSACTION {'READ ONLY' if read_only else 'READ WRITE'}")
        self._set({**_ALWAYS, **chosen}, local=True)
        with suppress(psycopg.DataError), self.connection.transaction():  # a server on Windows refuses this setting
            self._set(_CHECK_CONNECTION, local=True)

    def rollback(self) -> None:
        self.connection.execute("ROLLBACK")

    def stop(self) -> None:
        """Ask the database to end the running statement, over a connection of its own. It does nothing on failure."""
        with suppress(psycopg.Error, OSError):
            self.connection.cancel_safe(timeout=CANCEL_S)

    def cut(self) -> None:
        """Shut the connection down, so that the thread that waits for it wakes up."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def _set(self, values: Mapping[str, str], *, local: bool) -> None:
        statement = _SET.format(local="true" if local else "false")
        self.connection.execute(statement.encode(), [Jsonb(dict(values))])


class _Call:
    """The state that the thread of a call shares with the event loop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cancelled = False
        self.session: Session | None = None


class DatabaseSessions:
    """Opens sessions. An engine has one instance, which tools get with `ctx.need(DatabaseSessions)`.

    Calls have threads of their own, because the threads of `asyncio.to_thread` are few, and a statement may run for
    minutes. Waiting statements use no processor.
    """

    def __init__(self, settings: DatabaseSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ
        self._pool = ThreadPoolExecutor(settings.max_sessions, thread_name_prefix="knackbox-database")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_sessions={self.settings.max_sessions})"

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run work in a new session of the role for reading.

        Raises:
            ToolFailure: The database cannot be reached, or the work failed.
        """
        return await self._run(self.settings.reading, work)

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run work in a new session of the role for writing.

        Raises:
            ToolFailure: Writing is not allowed, the database cannot be reached, or the work failed.
        """
        if not self.settings.allow_writes:
            raise not_configured(
                "Changes of the database are not allowed. A person can set allow_writes and write_dsn_file in "
                "[packs.database]."
            )
        return await self._run(self.settings.writing, work)

    async def aclose(self) -> None:
        """Wait for the threads. Calls have been cancelled before."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    async def _run(self, source: DsnSource, work: Callable[[Session], T]) -> T:
        call = _Call()
        submitted = self._pool.submit(self._work, call, source, work)
        running = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if submitted.cancel():  # it was still waiting for a thread
                raise
            ending = asyncio.ensure_future(_end(call, running))
            while not ending.done():  # a second cancellation must not leave the statement behind either
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(ending)
            raise

    def _work(self, call: _Call, source: DsnSource, work: Callable[[Session], T]) -> T:
        if call.cancelled:
            raise psycopg.errors.QueryCanceled
        connection = connect(source, self._environ, self.settings.connect_timeout_s)
        try:
            with call.lock:
                if call.cancelled:
                    raise psycopg.errors.QueryCanceled
                call.session = Session(connection, self.settings)
            return work(call.session)
        finally:
            with call.lock:
                call.session = None
            connection.close()


async def _end(call: _Call, running: "asyncio.Future[Any]") -> None:
    await asyncio.to_thread(_apply, call, Session.stop)
    await asyncio.wait({running}, timeout=CANCEL_S)
    if not running.done():
        await asyncio.to_thread(_apply, call, Session.cut)
        await asyncio.wait({running}, timeout=CANCEL_S)
    if running.done() and not running.cancelled():
        running.exception()  # the failure of a cancelled statement is expected
    else:
        running.cancel()


def _apply(call: _Call, action: Callable[[Session], None]) -> None:
    with call.lock:
        call.cancelled = True
        if call.session is not None:
            action(call.session)


def connect(source: DsnSource, environ: Mapping[str, str], timeout_s: int) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect. Statements run in transactions that are begun explicitly.

    Raises:
        ToolFailure: There is no DSN, or the database cannot be reached. It says nothing of the DSN.
    """
    try:
        return _connect(source.read(environ), timeout_s)
    except ConfigError as error:
        failure = not_configured(str(error))
    except psycopg.Error as error:
        failure = connection_failure(error)
    raise failure  # outside the handlers, so that the error with the DSN is not its context


def _connect(dsn: SecretStr, timeout_s: int) -> "psycopg.Connection[tuple[Any, ...]]":
    parameters: dict[str, Any] = dict(conninfo.conninfo_to_dict(dsn.get_secret_value()))
    parameters |= {
        "application_name": APPLICATION,
        "client_encoding": "utf8",
        "connect_timeout": timeout_s,
        "keepalives": 1,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    return psycopg.Connection.connect(**parameters, autocommit=True, prepare_threshold=None)
