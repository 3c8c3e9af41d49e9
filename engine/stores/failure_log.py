"""`FailureLog`: failures that people should look at, for `knackbox failures`. The oldest rows are removed."""

from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, delete, desc, insert, select

from engine.contract.failure import FailureClass
from engine.stores.records import Records

KEPT = 10_000  # rows
SWEEP_EVERY = 100  # rows between two sweeps
MAX_ERROR_CHARACTERS = 4_000

SCHEMA = MetaData()
FAILURES = Table(
    "failures",
    SCHEMA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("ts", String(40), nullable=False),
    Column("tool", String(200), nullable=False),
    Column("call_id", String(200), nullable=False),
    Column("failure_class", String(20), nullable=False, index=True),
    Column("reason", String(200), nullable=False),
    Column("error_text", Text, nullable=False),
)


class FailureLog:
    """The log of failures in the records, shared by all processes on one home."""

    def __init__(self, records: Records) -> None:
        """Create the table if it is missing."""
        self._records = records
        records.create(SCHEMA)

    def record(
        self, tool: str, failure_class: FailureClass, reason: str, error_text: str, *, ts: str, call_id: str
    ) -> None:
        """Add one failure. ts: when, UTC, ISO 8601. The text is truncated to MAX_ERROR_CHARACTERS."""
        row = {
            "ts": ts,
            "tool": tool,
            "call_id": call_id,
            "failure_class": failure_class.value,
            "reason": reason,
            "error_text": error_text[:MAX_ERROR_CHARACTERS],
        }
        with self._records.begin() as connection:
            (number,) = connection.execute(insert(FAILURES).values(row)).inserted_primary_key or (0,)
            if number % SWEEP_EVERY == 0:
                connection.execute(delete(FAILURES).where(FAILURES.c.id <= number - KEPT))

    def recent(self, limit: int = 50, failure_class: FailureClass | None = None) -> list[dict[str, Any]]:
        """Return rows, newest first, each with id, ts, tool, call_id, failure_class, reason and error_text."""
        query = select(FAILURES).order_by(desc(FAILURES.c.id)).limit(limit)
        if failure_class is not None:
            query = query.where(FAILURES.c.failure_class == failure_class.value)
        with self._records.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]
