"""The table of the call journal, and functions that convert a call to a row."""

import json
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    case,
    func,
)

from engine.contract.guard import GuardRequest
from engine.contract.result import ToolCall, ToolResult
from engine.contract.turn import Turn

STARTED = "started"  # `end` of a call without a result: it is running, or its engine died
CANCELLED = ("killed", "cancelled")  # `end` and `reason` of a call cancelled by its caller; it is not a failure
MAX_ERROR_CHARACTERS = 4_000
_ARGUMENT_CHARACTERS = 2_000
_NAME_CHARACTERS = 150

SCHEMA = MetaData()
CALLS = Table(
    "call_log",
    SCHEMA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("call_id", String(200), nullable=False),
    Column("ts", String(40), nullable=False),
    Column("tool", String(200), nullable=False, index=True),
    Column("user", String(200), nullable=False),
    Column("agent", String(200), nullable=False),
    Column("risk", String(10), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("end", String(20), nullable=False),
    Column("success", Boolean, nullable=True),
    Column("attempts", Integer, nullable=False),
    Column("duration_ms", Float, nullable=True),
    Column("failure_class", String(20), nullable=True),
    Column("reason", String(200), nullable=True),
    Column("side_effects", Text, nullable=False),
    Column("data", Text, nullable=True),
    Column("error_text", Text, nullable=True),  # null unless the call failed
    Column("counted", Boolean, nullable=True),  # true: included in the daily counts, and kept only because it failed
    UniqueConstraint("call_id", "ts"),  # the id alone is not unique: callers choose ids, and models reuse them
)
COUNTS = (  # the number of calls, how many of them failed, and their total duration in milliseconds
    func.count(),
    func.sum(case((CALLS.c.success.is_(True), 0), else_=1)),
    func.sum(func.coalesce(CALLS.c.duration_ms, 0.0)),
)
IS_FAILURE = CALLS.c.error_text.is_not(None)
# A partial index over failures only, so that the row of a successful call costs nothing extra to write.
BY_FAILURE = Index(
    "call_log_failures", CALLS.c.failure_class, CALLS.c.id, sqlite_where=IS_FAILURE, postgresql_where=IS_FAILURE
)


def row_of(call: ToolCall, result: ToolResult, turn: Turn) -> dict[str, Any]:
    """Return the row of a completed call."""
    audit, failure = result.audit, result.failure
    noted = failure is not None and (audit.end, failure.reason) != CANCELLED
    return {
        **_who(turn),
        **_what(call, audit.tool, audit.call_id),
        "ts": audit.ts,
        "risk": audit.risk,
        "end": audit.end,
        "success": result.success,
        "attempts": audit.attempts,
        "duration_ms": audit.duration_ms,
        "failure_class": failure.failure_class.value if failure is not None else None,
        "reason": storable(failure.reason) if failure is not None else None,
        "side_effects": json.dumps(result.side_effects),
        "data": json.dumps(dict(audit.data)) if audit.data else None,
        "error_text": storable(result.error, MAX_ERROR_CHARACTERS) if noted else None,
    }


def row_of_start(request: GuardRequest, risk: str) -> dict[str, Any]:
    """Return the row of a call that is about to run. If the engine dies, this row remains as the call's record."""
    return {
        **_who(request.turn),
        **_what(request.call, request.spec.name, request.call_id),
        "ts": request.ts,
        "risk": risk,
        "end": STARTED,
        "success": None,
        "attempts": 0,
        "duration_ms": None,
        "failure_class": None,
        "reason": None,
        "side_effects": "[]",
        "data": None,
        "error_text": None,
    }


def storable(text: str, limit: int = _NAME_CHARACTERS) -> str:
    """Return the start of a text chosen by a caller, such as a name or id, in a form that any database accepts."""
    return text[:limit].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _who(turn: Turn) -> dict[str, Any]:
    return {"user": storable(turn.user), "agent": storable(turn.agent)}


def _what(call: ToolCall, tool: str, call_id: str) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, default=repr)  # ASCII, since a lone surrogate cannot be stored otherwise
    return {
        "call_id": storable(call_id),
        "tool": storable(tool),
        "arguments": arguments[:_ARGUMENT_CHARACTERS],
    }
