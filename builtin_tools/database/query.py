"""The action `query`: reads rows in a read-only transaction, for the model and into a file of the workspace.

The statement becomes the query of a cursor. PostgreSQL's grammar admits only SELECT, VALUES, TABLE and WITH there, and
refuses statements that change data inside WITH. So the server decides what a query is, and not a pattern of ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import psycopg

from builtin_tools.database.cells import Cell, cell_of, columns_of, text_table
from builtin_tools.database.database_actions import QueryRequest
from builtin_tools.database.failures import statement_failure
from builtin_tools.database.outputs import QueryOutput
from builtin_tools.database.rights import refuse_excessive_rights
from builtin_tools.database.row_files import RowFile, row_file, size_of
from builtin_tools.database.sessions import Session
from builtin_tools.database.statements import run_statement, stream_statement
from engine.contract.context import Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.workspace_folder import one_line
from engine.stores.workspace import FolderWorkspace

DECLARE = b"DECLARE knackbox_query NO SCROLL CURSOR WITHOUT HOLD FOR "
MAX_OUTPUT_BYTES = 1 << 20  # bytes of the values in one structured output


@contextmanager
def reading(session: Session, sql: str = "", offset: int = 0) -> Iterator[None]:
    """Run the block in a read-only transaction that is rolled back.

    Args:
        session: The session.
        sql: The agent's statement, which needs a role that can only read. "" if the block runs only our own statements.
        offset: Number of characters that are put before the statement.

    Raises:
        ToolFailure: The role has too many rights, or the server reported an error.
    """
    try:
        session.begin(read_only=True)
        if sql:
            refuse_excessive_rights(session.connection, session.settings.accept_rights)
        yield
        if not session.connection.closed:
            session.rollback()
    except psycopg.Error as error:
        timeout_s = session.settings.statement_timeout_s
        failure = statement_failure(error, offset=offset, statement=sql, timeout_s=timeout_s, only_queries=True)
    else:
        return
    raise failure


def query(session: Session, request: QueryRequest, folder: FolderWorkspace) -> Produced[QueryOutput]:
    """Run the query.

    Raises:
        ToolFailure: The database refused the statement, or the file cannot be written.
    """
    with reading(session, request.sql, len(DECLARE)):
        run_statement(session.connection.pgconn, DECLARE + request.sql.encode())
        taken = _Taken(request, session)
        if not request.path:
            taken.take(request.shown)
            return taken.produced()
        with folder.replacing(request.path) as stream:
            taken.take(session.settings.max_rows, stream)
        return taken.produced(saved=True)


class _Taken:
    """Collects the rows of a query: the first ones for the result, and all of them for the file."""

    def __init__(self, request: QueryRequest, session: Session) -> None:
        self._request = request
        self._session = session
        self.columns: list[tuple[str, int]] = []
        self.rows: list[list[Cell]] = []
        self.count = 0
        self.size = 0
        self.more = ""  # why there are further rows
        self._bytes = 0

    def take(self, most: int, stream: BinaryIO | None = None) -> None:
        """Fetch at most this number of rows.

        Raises:
            ToolFailure: A row is too large.
        """
        target: RowFile | None = None
        # One statement for all rows, because the statement timeout then limits the whole query.
        fetch = f"FETCH FORWARD {most + 1} FROM knackbox_query".encode()
        try:
            for result in stream_statement(self._session.connection.pgconn, fetch):
                if not self.columns:
                    self.columns = columns_of(result)
                    target = row_file(self._request.path, stream, self.columns) if stream is not None else None
                if not result.ntuples:
                    continue
                if self.count == most:
                    self.more = f"the limit of {most:,} rows"
                    continue  # the server sends no row after this one
                self._add([result.get_value(0, at) for at in range(len(self.columns))], target)
                if self.more:
                    self._session.stop()
                    self._session.connection.close()  # instead of reading the rows that are on their way
                    break
            if target is not None:
                target.finish()
                self.size = target.size
        except BaseException:
            if target is not None:
                target.abandon()
            raise

    def _add(self, row: list[bytes | None], target: RowFile | None) -> None:
        """Keep a row. This is called for each row of large results, so it avoids work."""
        settings = self._session.settings
        size = target.add(row) if target is not None else size_of(row)
        if size > settings.max_row_bytes:
            self._session.stop()
            raise _too_large(size, settings.max_row_bytes)
        self.count += 1
        if len(self.rows) < self._request.shown and (not self.rows or self._bytes + size <= MAX_OUTPUT_BYTES):
            self._bytes += size
            self.rows.append([cell_of(cell, kind) for cell, (_, kind) in zip(row, self.columns, strict=True)])
        if target is not None and target.size > settings.max_file_bytes:
            self.more = f"the limit of {settings.max_file_bytes:,} bytes"

    def produced(self, *, saved: bool = False) -> Produced[QueryOutput]:
        names = [name for name, _ in self.columns]
        table, shown = text_table(names, self.rows)
        path = self._request.path
        value: QueryOutput = {
            "columns": names,
            "rows": self.rows,
            "row_count": self.count,
            "complete": not self.more and (saved or len(self.rows) == self.count),
            "path": path,
            "bytes": self.size,
        }
        notes = []
        if saved:
            notes.append(f"Wrote {self.count:,} rows to {one_line(path)} ({self.size:,} bytes).")
            if self.more:
                notes.append(f"The file is incomplete: the query has more rows than {self.more} allows.")
            if shown < self.count:
                notes.append(f"The first {shown:,} rows are shown.")
        elif self.more or shown < self.count:
            notes.append(f"[{shown:,} rows shown; there are more. Set `path` to save all rows in a file]")
        else:
            notes.append(f"({self.count:,} row{'s' if self.count != 1 else ''})")
        return Produced(value, "\n".join([table, *notes]), (f"created:{path}",) if saved else ())


def _too_large(size: int, most: int) -> ToolFailure:
    return ToolFailure(
        f"A row has {size:,} bytes, more than the {most:,} allowed. Select fewer columns, or parts of long values with "
        "left() or substring().",
        reason="row_too_large",
        may_have_started=False,
    )
