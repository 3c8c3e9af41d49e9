"""The action `explain`: shows the plan of a statement, and measures it if asked to.

A query is explained as the query of a cursor, in the same session as `query`, so its measured execution (ANALYZE) can
do nothing that `query` cannot. A statement that changes data can only be explained where `execute` is allowed, and its
measured execution needs the same approval.
"""

import psycopg

from builtin_tools.database.cells import TABLE_LENGTH
from builtin_tools.database.failures import statement_failure
from builtin_tools.database.outputs import ExplainOutput
from builtin_tools.database.query import DECLARE, reading
from builtin_tools.database.rights import refuse_excessive_rights
from builtin_tools.database.sessions import Session
from builtin_tools.database.statements import run_statement
from engine.contract.context import Produced

_PLAN = b"EXPLAIN (VERBOSE FALSE, SETTINGS TRUE) "
_MEASURE = b"EXPLAIN (ANALYZE TRUE, BUFFERS TRUE, VERBOSE FALSE, SETTINGS TRUE) "


def explain_query(session: Session, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
    """Explain a query with the role for reading.

    Args:
        session: The session.
        sql: The query.
        analyze: Whether to execute and measure it.

    Raises:
        ToolFailure: It is no query, or the database refused it.
    """
    prefix = (_MEASURE if analyze else _PLAN) + DECLARE
    with reading(session, sql, len(prefix)):
        lines = plan_lines(session, prefix + sql.encode())
    return plan_output(lines, executed=analyze)


def explain_change(session: Session, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
    """Explain any statement that has a plan, with the role for writing. The transaction is rolled back.

    Args:
        session: The session.
        sql: The statement.
        analyze: Whether to execute and measure it. A person must have approved this.

    Raises:
        ToolFailure: The database refused it.
    """
    prefix = _MEASURE if analyze else _PLAN
    try:
        session.begin(read_only=not analyze)
        refuse_excessive_rights(session.connection, session.settings.accept_rights, writing=True)
        lines = plan_lines(session, prefix + sql.encode())
        session.rollback()
    except psycopg.Error as error:
        timeout_s = session.settings.statement_timeout_s
        failure = statement_failure(error, offset=len(prefix), statement=sql, timeout_s=timeout_s)
    else:
        return plan_output(lines, executed=analyze)
    raise failure


def plan_lines(session: Session, statement: bytes) -> list[str]:
    """Run EXPLAIN and return the lines of the plan.

    Raises:
        psycopg.Error: The database refused the statement.
    """
    result = run_statement(session.connection.pgconn, statement)
    return [(result.get_value(at, 0) or b"").decode("utf-8", "replace") for at in range(result.ntuples)]


def plan_output(lines: list[str], *, executed: bool) -> Produced[ExplainOutput]:
    shown: list[str] = []
    length = 0
    for line in lines:
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        text = text if len(text) <= 500 else f"{text[:500]}…"  # noqa: PLR2004 -- a filter with a long list of values
        if length + len(text) > TABLE_LENGTH:
            shown.append(f"[{len(lines) - len(shown):,} more lines]")
            break
        shown.append(text)
        length += len(text) + 1
    if executed:
        shown.append("(executed in a transaction that was rolled back)")
    plan = "\n".join(shown)
    return Produced({"plan": plan, "executed": executed}, plan)
