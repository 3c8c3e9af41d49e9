"""`CallLog`: every call as a row, for `knackbox audit`. The oldest rows are removed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    case,
    delete,
    desc,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import NoSuchTableError

from engine.contract.guard import GuardRequest
from engine.contract.result import ToolCall, ToolResult
from engine.contract.turn import Turn
from engine.stores import history
from engine.stores.history import DayCount
from engine.stores.records import Records

KEPT = 100_000  # rows
_SWEEP_EVERY = 1_000  # rows between two sweeps
_ARGUMENT_CHARACTERS = 2_000
_NAME_CHARACTERS = 150
STARTED = "started"  # the end of a call whose result was never written: its engine died

_KEY = frozenset(("id", "call_id", "ts"))
_SCHEMA = MetaData()
_CALLS = Table(
    "call_log",
    _SCHEMA,
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
    UniqueConstraint("call_id", "ts"),  # ids are the callers' own, and models use theirs again
)


class CallLog:
    """The log of calls in the records, shared by all processes on one home. Every method blocks."""

    def __init__(self, records: Records, *, kept: int = KEPT) -> None:
        """Create missing tables. kept: the number of rows to keep, the newest."""
        self._records = records
        self._kept = kept
        self._since_sweep = 0
        self._has_data = False
        records.create(history.SCHEMA)
        records.create(_SCHEMA)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows atomically. A row replaces an earlier one of the same call."""
        if not rows:
            return
        with self._records.begin() as connection:
            if not self._has_data and _lacks_data(connection):
                connection.execute(text(f"ALTER TABLE {_CALLS.name} ADD COLUMN data TEXT"))
            put = self._records.insert(_CALLS)
            new = {column.name: put.excluded[column.name] for column in _CALLS.columns if column.name not in _KEY}
            connection.execute(put.on_conflict_do_update(index_elements=["call_id", "ts"], set_=new), rows)
            self._since_sweep += len(rows)
            if self._since_sweep >= _SWEEP_EVERY:
                self._since_sweep = 0
                self._sweep(connection)
        self._has_data = True

    def history(self) -> list[DayCount]:
        """Return the number of dropped calls per tool and day, and how many of them failed."""
        with self._records.read() as connection:
            return history.days(connection, "calls")

    def _sweep(self, connection: Connection) -> None:
        """Drop the oldest rows beyond the limit, keeping their counts."""
        newest = connection.execute(select(func.max(_CALLS.c.id))).scalar() or 0
        gone, day = _CALLS.c.id <= newest - self._kept, func.substr(_CALLS.c.ts, 1, 10)
        failed = func.sum(case((_CALLS.c.success.is_(True), 0), else_=1))
        duration = func.sum(func.coalesce(_CALLS.c.duration_ms, 0.0))
        counted = select(day, _CALLS.c.tool, func.count(), failed, duration).where(gone).group_by(day, _CALLS.c.tool)
        history.add(connection, "calls", [DayCount(*row) for row in connection.execute(counted).all()])
        connection.execute(delete(_CALLS).where(gone))

    def recent(self, limit: int = 50, *, tool: str = "", failed: bool = False) -> list[dict[str, Any]]:
        """Return rows, newest first. tool: only of this tool. failed: only failed calls."""
        with self._records.read() as connection:
            has_data = self._has_data or not _lacks_data(connection)
        columns = [column for column in _CALLS.columns if column.name != "data" or has_data]
        query = select(*columns).order_by(desc(_CALLS.c.id)).limit(limit)
        if tool:
            query = query.where(_CALLS.c.tool == tool)
        if failed:
            query = query.where(_CALLS.c.success.is_not(True))
        with self._records.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            {**row, "side_effects": json.loads(row["side_effects"]), "data": json.loads(row.get("data") or "{}")}
            for row in rows
        ]


def _lacks_data(connection: Connection) -> bool:
    """Whether the table was created by an earlier release, without the column `data`."""
    try:
        columns = inspect(connection).get_columns(_CALLS.name)
    except NoSuchTableError:  # what is then read or written says so
        return False
    return all(column["name"] != "data" for column in columns)


def row_of(call: ToolCall, result: ToolResult, turn: Turn) -> dict[str, Any]:
    """Return the row of a completed call."""
    audit, failure = result.audit, result.failure
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
    }


def row_of_start(request: GuardRequest, risk: str) -> dict[str, Any]:
    """Return the row of a call that is about to run. It remains if its engine dies."""
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
    }


def _who(turn: Turn) -> dict[str, Any]:
    return {"user": storable(turn.user), "agent": storable(turn.agent)}


def _what(call: ToolCall, tool: str, call_id: str) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, default=repr)  # in ASCII: half a character cannot be written otherwise
    return {
        "call_id": storable(call_id),
        "tool": storable(tool),
        "arguments": arguments[:_ARGUMENT_CHARACTERS],
    }


def storable(text: str) -> str:
    """Return a short form that any database accepts. Callers choose names and ids."""
    return text[:_NAME_CHARACTERS].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
