"""The action `execute`: measures a change in a rolled-back transaction, and makes it after a person's approval.

The approval shows the statement and the number of rows. If the number differs when the change is made, the change is
rolled back, so that nothing happens that the person did not approve.
"""

from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from builtin_tools.database.database_actions import MeasuredChange
from builtin_tools.database.failures import NOT_A_QUERY, described, statement_failure
from builtin_tools.database.outputs import ExecuteOutput
from builtin_tools.database.rights import refuse_excessive_rights
from builtin_tools.database.sessions import Session
from builtin_tools.database.statements import parse_statement, run_statement
from engine.contract.context import Produced
from engine.contract.failure import FailureClass, ToolFailure

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_EXPLAIN = b"EXPLAIN "
_LOST = ("08", "57P")  # the beginnings of the SQLSTATEs of lost connections
_NEEDS_NO_TRANSACTION = "25001"  # "cannot run inside a transaction block"


def measure(session: Session, sql: str) -> MeasuredChange:
    """Measure a change without keeping it.

    Only statements that have a plan (INSERT, UPDATE, DELETE, MERGE and queries) are executed for this. Others, such as
    CREATE, COPY, DO and CALL, may have effects that a rollback does not undo, so they are only parsed.

    Raises:
        ToolFailure: The role has too many rights, or the database refused the statement.
    """
    try:
        session.begin(read_only=False)
        refuse_excessive_rights(session.connection, session.settings.accept_rights, writing=True)
        names = session.connection.execute("SELECT current_database()::text, session_user::text").fetchone()
        database, role = names or ("", "")
        parse_statement(session.connection.pgconn, sql.encode())
        rows = None
        if _has_plan(session, sql):
            rows = _rows(run_statement(session.connection.pgconn, sql.encode()))
        session.rollback()
    except psycopg.Error as error:
        timeout_s = session.settings.statement_timeout_s
        failure = statement_failure(error, statement=sql, timeout_s=timeout_s)
    else:
        return MeasuredChange(database, role, rows)
    raise failure


def change(session: Session, sql: str, approved: MeasuredChange) -> Produced[ExecuteOutput]:
    """Make an approved change.

    Raises:
        ToolFailure: The number of rows differs from what was approved, or the database refused the statement. Nothing
            was changed then, unless the failure says that this is unknown.
    """
    committing = False
    try:
        session.begin(read_only=False)
        refuse_excessive_rights(session.connection, session.settings.accept_rights, writing=True)
        try:
            result = run_statement(session.connection.pgconn, sql.encode())
        except psycopg.Error as error:
            if error.sqlstate != _NEEDS_NO_TRANSACTION or approved.rows is not None:
                raise
            session.rollback()
            return _outside_transaction(session, sql)
        rows = None if approved.rows is None else _rows(result)
        if rows != approved.rows:
            session.rollback()
            raise _differs(rows, approved.rows)
        committing = True
        session.connection.execute("COMMIT")
    except psycopg.Error as error:
        if committing and (error.sqlstate or _LOST[0]).startswith(_LOST):
            failure = _uncertain()
        else:
            failure = statement_failure(error, statement=sql, timeout_s=session.settings.statement_timeout_s)
            if failure.failure_class is FailureClass.RETRYABLE:  # a retry would ask the person again
                failure.failure_class = FailureClass.DIAGNOSTIC
    else:
        return _output(result, rows)
    raise failure


def _has_plan(session: Session, sql: str) -> bool:
    try:
        with session.connection.transaction():
            run_statement(session.connection.pgconn, _EXPLAIN + sql.encode())
    except psycopg.Error as error:
        if error.sqlstate in NOT_A_QUERY:
            return False
        raise
    return True


def _outside_transaction(session: Session, sql: str) -> Produced[ExecuteOutput]:
    """Run a statement that PostgreSQL does not run in a transaction, such as VACUUM or CREATE INDEX CONCURRENTLY."""
    milliseconds = round(session.settings.statement_timeout_s * 1000)
    try:
        session.connection.execute(f"SET statement_timeout = {milliseconds}".encode())
        result = run_statement(session.connection.pgconn, sql.encode())
    except psycopg.Error as error:
        failure = ToolFailure(
            f"{described(error)}. The statement ran without a transaction, so a part of it may have been done.",
            failure_class=FailureClass.FATAL,
            reason="sql_error",
        )
    else:
        return _output(result, None)
    raise failure


def _rows(result: "PGresult") -> int | None:
    return result.command_tuples if result.status in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK} else None


def _output(result: "PGresult", rows: int | None) -> Produced[ExecuteOutput]:
    command = (result.command_status or b"").decode("ascii", "replace")
    counted = "" if rows is None else f" {rows:,} row{'s' if rows != 1 else ''} affected."
    return Produced({"command": command, "rows_affected": rows}, f"Done: {command}.{counted}", ("database_write",))


def _differs(rows: int | None, approved: int | None) -> ToolFailure:
    return ToolFailure(
        f"The change was rolled back: it affected {rows} rows, but {approved} were approved. The data has changed "
        "since. Call execute again to ask for a new approval.",
        reason="rows_differ",
        may_have_started=False,
    )


def _uncertain() -> ToolFailure:
    return ToolFailure(
        "The connection was lost while the change was being committed, so it is unknown whether it was made. Check "
        "with a query before you repeat it.",
        failure_class=FailureClass.FATAL,
        reason="commit_unknown",
    )
