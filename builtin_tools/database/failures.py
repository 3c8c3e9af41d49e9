"""Converts errors of PostgreSQL to failures, without anything of the connection string.

Errors of connecting are described in our own words, since libpq's messages quote the host, the user and sometimes the
whole connection string. Errors of statements have the server's message.
"""

from typing import NoReturn

import psycopg

from engine.contract.failure import REFUSED, FailureClass, ToolFailure

_MOST = 600  # characters of a server's message
_LOCKED = "55P03"  # lock not available
_BUSY = frozenset({"40001", "40P01", _LOCKED})  # the first two: serialization failure, deadlock
# Syntax error and feature not supported: what the server reports for a statement that cannot be the query of a cursor.
NOT_A_QUERY = frozenset({"42601", "0A000"})
_ONLY_QUERIES = "Only a single SELECT, VALUES, TABLE or WITH that changes nothing can be read here."
_UNREACHABLE = "unreachable"


def connection_failure(error: psycopg.Error) -> ToolFailure:
    """Return the failure for an error of connecting. Nothing of the error's text is used."""
    state = error.sqlstate or _state_in(str(error))
    if isinstance(error, psycopg.ProgrammingError):
        return _failure("The configured DSN is not valid. A person can correct it.", "not_configured")
    if state.startswith("28"):
        return _failure(
            "The database refused the login. A person can correct the user, the password or pg_hba.conf.", "login"
        )
    if state == "3D000":
        return _failure("The database named in the DSN does not exist. A person can correct it.", "not_configured")
    text = "The database cannot be reached. It may be down or overloaded; a person can check it with knackbox doctor."
    return _failure(text, _UNREACHABLE, FailureClass.RETRYABLE)


def _state_in(text: str) -> str:
    """Return the SQLSTATE of a failed connection, which libpq before version 17 only reports as words."""
    lowered = text.lower()
    if any(words in lowered for words in ("authentication failed", "no pg_hba.conf entry", "no password supplied")):
        return "28000"
    if "role" in lowered and "does not exist" in lowered:
        return "28000"
    return "3D000" if "database" in lowered and "does not exist" in lowered else ""


def statement_failure(
    error: psycopg.Error, *, offset: int = 0, statement: str = "", timeout_s: float, only_queries: bool = False
) -> ToolFailure:
    """Return the failure for an error of a statement that was rolled back.

    Args:
        error: The error.
        offset: Number of characters that were put before the statement.
        statement: The statement, to show where the error is.
        timeout_s: The statement timeout, for messages.
        only_queries: Whether only queries are accepted. The grammar then rejects all other statements.
    """
    state, said = error.sqlstate or "", described(error, offset, statement)
    if state == "57014":
        text = (
            f"The database ended the statement after {timeout_s:g} s (statement timeout). Select less, or add an index."
        )
        return _failure(text, "timeout", FailureClass.DIAGNOSTIC)
    if state == "25006":
        return _failure(f"Refused by the database: {said}. Only reading is possible here.", "read_only")
    if state == "42501":
        return _failure(f"Refused by the database: {said}. The role has no right to do this.", "no_right")
    if state in _BUSY:
        who = " Another session holds the lock; activity shows which one." if state == _LOCKED else ""
        return _failure(f"{said}.{who}", "busy", FailureClass.RETRYABLE)
    if not state or state.startswith(("08", "57P", "53")):
        lost = "The connection to the database was lost, or the database has no resources left."
        return _failure(lost, _UNREACHABLE, FailureClass.RETRYABLE)
    note = f" {_ONLY_QUERIES}" if only_queries and state in NOT_A_QUERY else ""
    return _failure(f"{said}.{note}", "sql_error", FailureClass.DIAGNOSTIC)


def described(error: psycopg.Error, offset: int = 0, statement: str = "") -> str:
    """Return the server's message with its detail and hint, and the line of the statement that it points to."""
    parts = [error.diag.message_primary or "the statement failed", error.diag.message_detail, error.diag.message_hint]
    text = ". ".join(" ".join(part.split()).rstrip(".") for part in parts if part)
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)[:_MOST]
    try:
        at = int(error.diag.statement_position or 0) - 1 - offset
    except ValueError:
        return text
    if not 0 <= at < len(statement):
        return text
    line = statement.count("\n", 0, at) + 1
    near = " ".join(statement[at : at + 40].split())
    return f"{text} (line {line}, at {near!r})"


def raise_refused(message: str, reason: str) -> NoReturn:
    """Refuse a call for which only a person can change the conditions.

    Raises:
        ToolFailure: Always (FATAL).
    """
    raise _failure(message, reason)


def _failure(text: str, reason: str, failure_class: FailureClass | None = None) -> ToolFailure:
    refused = failure_class is None
    if failure_class is None:
        failure_class = FailureClass.DIAGNOSTIC if reason in {"read_only", "no_right"} else FailureClass.FATAL
    end = REFUSED if refused else "error"
    return ToolFailure(text, failure_class=failure_class, reason=reason, may_have_started=False, end=end)
