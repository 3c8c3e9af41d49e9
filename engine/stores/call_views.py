"""Views of the call journal: the lists that `knackbox audit` and `knackbox failures` show, and counts per tool."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import desc, select

from engine.contract.failure import FailureClass
from engine.stores import history
from engine.stores.call_rows import CALLS, COUNTS, IS_FAILURE
from engine.stores.history import DayCount
from engine.stores.records import Records

_AUDITED = tuple(column for column in CALLS.columns if column.name not in {"error_text", "counted"})
_FAILURE = tuple(CALLS.c[name] for name in ("id", "ts", "tool", "call_id", "failure_class", "reason", "error_text"))


@dataclass(frozen=True, slots=True)
class ToolOutcomes:
    """The call and failure counts of one tool.

    Attributes:
        failed: The number of failed calls, including calls without a result.
        total_ms: The total duration of the calls, in milliseconds.
    """

    tool: str
    calls: int = 0
    failed: int = 0
    total_ms: float = 0.0

    @property
    def failure_rate(self) -> float:
        """The share of failed calls, 0 to 1."""
        return self.failed / self.calls if self.calls else 0.0


class AuditView:
    """The recorded calls. Every method blocks."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def recent(self, limit: int = 50, *, tool: str = "", failed: bool = False) -> list[dict[str, Any]]:
        """Return rows, newest first.

        Args:
            tool: The name of the tool whose calls are returned; "" for all tools.
            failed: Whether only failed calls are returned.
        """
        query = select(*_AUDITED).where(CALLS.c.counted.is_(None)).order_by(desc(CALLS.c.id)).limit(limit)
        if tool:
            query = query.where(CALLS.c.tool == tool)
        if failed:
            query = query.where(CALLS.c.success.is_not(True))
        with self._records.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            {**row, "side_effects": json.loads(row["side_effects"]), "data": json.loads(row["data"] or "{}")}
            for row in rows
        ]


class FailuresView:
    """The failed calls. Calls that their callers cancelled are not failures. Every method blocks."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def recent(self, limit: int = 50, failure_class: FailureClass | None = None) -> list[dict[str, Any]]:
        """Return rows, newest first, each with id, ts, tool, call_id, failure_class, reason and error_text."""
        query = select(*_FAILURE).where(IS_FAILURE).order_by(desc(CALLS.c.id)).limit(limit)
        if failure_class is not None:
            query = query.where(CALLS.c.failure_class == failure_class.value)
        with self._records.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


class OutcomesView:
    """Call and failure counts per tool, including calls whose rows have been deleted. Every method blocks."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def by_tool(self) -> list[ToolOutcomes]:
        """Return the outcomes of each tool, by name. Deleted rows are included for `history.DAYS_KEPT` days."""
        kept = select(CALLS.c.tool, *COUNTS).where(CALLS.c.counted.is_(None)).group_by(CALLS.c.tool)
        with self._records.read() as connection:
            counts = [tuple(row) for row in connection.execute(kept)]
            counts += [(day.name, day.count, day.failed, day.duration_ms) for day in history.days(connection, "calls")]
        totals: dict[str, ToolOutcomes] = {}
        for tool, calls, failed, total_ms in counts:
            before = totals.get(tool, ToolOutcomes(tool))
            totals[tool] = ToolOutcomes(tool, before.calls + calls, before.failed + failed, before.total_ms + total_ms)
        return [totals[tool] for tool in sorted(totals)]

    def dropped(self) -> list[DayCount]:
        """Return the number of deleted calls per tool and day, and how many of them failed."""
        with self._records.read() as connection:
            return history.days(connection, "calls")
