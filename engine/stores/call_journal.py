"""`CallJournal`: records every call as one row. The audit, the failures and the outcomes are views of these rows.

Rows beyond the limit are added to daily counts (`engine.stores.history`) and deleted, except that the newest
`FAILURES_KEPT` failures are always kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from engine.stores import history, journal_upgrade
from engine.stores.call_rows import CALLS, COUNTS, IS_FAILURE, SCHEMA
from engine.stores.call_views import AuditView, FailuresView, OutcomesView
from engine.stores.history import DayCount
from engine.stores.records import Records

KEPT = 100_000  # rows
FAILURES_KEPT = 10_000
SWEEP_EVERY = 1_000  # rows between two sweeps

_NOT_REPLACED = frozenset(("id", "call_id", "ts", "counted"))


class CallJournal:
    """The journal of calls, stored in the records and shared by all processes on one home. Every method blocks.

    Attributes:
        audit: The recorded calls.
        failures: The recorded calls that failed.
        outcomes: Call and failure counts per tool, including calls whose rows have been deleted.
    """

    def __init__(self, records: Records, *, kept: int = KEPT) -> None:
        """Create missing tables, and upgrade those of an earlier release.

        Args:
            records: The database with the journal.
            kept: How many of the newest rows to keep.

        Raises:
            DiskFull: The tables have to be changed, but the disk is full.
        """
        self._records = records
        self._kept = kept
        self._since_sweep = 0
        self._put = _put(records)
        records.create(history.SCHEMA)
        records.create(SCHEMA)
        journal_upgrade.run(records)
        self.audit = AuditView(records)
        self.failures = FailuresView(records)
        self.outcomes = OutcomesView(records)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows atomically. A row replaces an earlier one of the same call."""
        if not rows:
            return
        with self._records.begin() as connection:
            connection.execute(self._put, rows)
            self._since_sweep += len(rows)
            if self._since_sweep >= SWEEP_EVERY:
                self._since_sweep = 0
                self._sweep(connection)

    def _sweep(self, connection: Connection) -> None:
        """Add the rows beyond the limit to the daily counts, and delete them, except for the newest failures."""
        newest = connection.execute(select(func.max(CALLS.c.id))).scalar() or 0
        old, day = CALLS.c.id <= newest - self._kept, func.substr(CALLS.c.ts, 1, 10)
        new = old & CALLS.c.counted.is_(None)
        counts = select(day, CALLS.c.tool, *COUNTS).where(new).group_by(day, CALLS.c.tool)
        history.add(connection, "calls", [DayCount(*row) for row in connection.execute(counts).all()])
        failures = select(CALLS.c.id).where(IS_FAILURE).order_by(CALLS.c.id.desc())
        beyond = connection.execute(failures.offset(FAILURES_KEPT).limit(1)).scalar()
        unneeded = ~IS_FAILURE if beyond is None else ~IS_FAILURE | (CALLS.c.id <= beyond)
        connection.execute(delete(CALLS).where(old & unneeded))
        connection.execute(update(CALLS).where(new).values(counted=True))


def _put(records: Records) -> Any:
    """Return the statement that adds rows, and replaces earlier rows of the same calls."""
    put = records.insert(CALLS)
    new = {column.name: put.excluded[column.name] for column in CALLS.columns if column.name not in _NOT_REPLACED}
    return put.on_conflict_do_update(index_elements=["call_id", "ts"], set_=new)
