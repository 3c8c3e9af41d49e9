"""Upgrades the call journal of an earlier release: adds missing columns, and merges the old failure table into it.

Everything happens in one transaction, so after `kill -9` at any point the upgrade is either complete or has had no
effect.
"""

from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    func,
    inspect,
    select,
    update,
)

from engine.stores.call_rows import BY_FAILURE, CALLS, storable
from engine.stores.records import Records, add_missing_columns, missing_columns

_OLD_FAILURES = Table(
    "failures",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("ts", String(40)),
    Column("tool", String(200)),
    Column("call_id", String(200)),
    Column("failure_class", String(20)),
    Column("reason", String(200)),
    Column("error_text", Text),
)


def due(records: Records) -> bool:
    """Return whether the tables were created by an earlier release. False if there are no tables yet."""
    with records.read() as connection:
        tables = inspect(connection).get_table_names()
        return _OLD_FAILURES.name in tables or (CALLS.name in tables and bool(missing_columns(connection, CALLS)))


def run(records: Records) -> None:
    """Upgrade the tables, if necessary.

    Raises:
        DiskFull: The disk is full. Nothing was changed.
    """
    if not due(records):
        return
    with records.begin() as connection:
        add_missing_columns(connection, CALLS)
        BY_FAILURE.create(connection, checkfirst=True)
        if _OLD_FAILURES.name in inspect(connection).get_table_names():
            _move_failures(records, connection)
            _OLD_FAILURES.drop(connection)


def _move_failures(records: Records, connection: Connection) -> None:
    """Add the error texts to the rows of their calls. A failure whose call was already deleted gets a new row."""
    alone: list[RowMapping] = []
    for failure in connection.execute(select(_OLD_FAILURES).order_by(_OLD_FAILURES.c.id)).mappings().all():
        same = (CALLS.c.call_id == storable(failure["call_id"])) & (CALLS.c.ts == failure["ts"])
        values = {name: failure[name] for name in ("failure_class", "reason", "error_text")}
        if not connection.execute(update(CALLS).where(same).values(values)).rowcount:
            alone.append(failure)
    first = connection.execute(select(func.min(CALLS.c.id))).scalar() or 1
    rows = [_row(failure, first - len(alone) + place) for place, failure in enumerate(alone)]
    if rows:
        connection.execute(records.insert(CALLS).on_conflict_do_nothing(), rows)


def _row(failure: RowMapping, number: int) -> dict[str, Any]:
    """Build a row for a failed call whose original row was deleted.

    Args:
        number: The id of the new row, lower than the ids of later calls.
    """
    shared = {name: failure[name] for name in ("ts", "tool", "failure_class", "reason", "error_text")}
    unknown = {"user": "", "agent": "", "risk": "", "arguments": "{}", "end": "", "attempts": 0, "side_effects": "[]"}
    return {**shared, **unknown, "id": number, "call_id": failure["call_id"], "success": False, "counted": True}
