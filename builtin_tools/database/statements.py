"""Runs single statements over PostgreSQL's extended query protocol.

The server itself refuses more than one statement in the extended protocol. Nothing in a statement is interpreted on our
side, so there is no placeholder syntax and nothing to escape.
"""

import select
from collections.abc import Iterator
from typing import TYPE_CHECKING

from psycopg import errors, pq

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_POLL_MS = 1000
_GOOD = frozenset(
    {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.EMPTY_QUERY}
)


def run_statement(connection: "PGconn", statement: bytes) -> "PGresult":
    """Run one statement and return its whole result.

    Raises:
        psycopg.Error: The server refused it, or the connection failed.
    """
    connection.send_query_params(statement, None)
    return _last(connection, results(connection))


def parse_statement(connection: "PGconn", statement: bytes) -> None:
    """Let the server parse one statement without running it.

    Raises:
        psycopg.Error: It is not exactly one valid statement.
    """
    connection.send_prepare(b"", statement)
    _last(connection, results(connection))


def stream_statement(connection: "PGconn", statement: bytes) -> "Iterator[PGresult]":
    """Run one statement and yield each row as a result of its own; an empty result with the columns comes last.

    Only one row is in memory at a time (libpq's single-row mode).

    Raises:
        psycopg.Error: The server refused it, or the connection failed.
    """
    connection.send_query_params(statement, None)
    connection.set_single_row_mode()
    return results(connection)


def results(connection: "PGconn") -> "Iterator[PGresult]":
    """Yield the results of what was sent.

    Raises:
        psycopg.Error: A result is an error, or not of a kind that a single statement should have, such as COPY.
    """
    _flush(connection)
    socket, ready = select.poll(), connection.socket
    socket.register(ready, select.POLLIN)
    while True:
        while connection.is_busy():
            if socket.poll(_POLL_MS):
                connection.consume_input()
        result = connection.get_result()
        if result is None:
            return
        if result.status == pq.ExecStatus.FATAL_ERROR:
            _drain(connection)
            raise errors.error_from_result(result, encoding="utf-8")
        if result.status not in _GOOD:
            # COPY would wait for data. Closing the connection is the only way out that is always right.
            raise errors.FeatureNotSupported("COPY and replication cannot be run here")
        yield result


def _last(connection: "PGconn", found: "Iterator[PGresult]") -> "PGresult":
    last = None
    for last in found:  # noqa: B007 -- only the last is wanted
        pass
    if last is None:
        raise errors.OperationalError(connection.get_error_message())
    return last


def _drain(connection: "PGconn") -> None:
    """Read what follows an error, so that the connection can be used again."""
    socket = select.poll()
    socket.register(connection.socket, select.POLLIN)
    while True:
        while connection.is_busy():
            if socket.poll(_POLL_MS):
                connection.consume_input()
        if connection.get_result() is None:
            return


def _flush(connection: "PGconn") -> None:
    """Send everything. While the server does not read, what it sends is read, so that neither side waits forever."""
    socket = select.poll()
    socket.register(connection.socket, select.POLLIN | select.POLLOUT)
    while connection.flush():
        if any(event & select.POLLIN for _, event in socket.poll(_POLL_MS)):
            connection.consume_input()
