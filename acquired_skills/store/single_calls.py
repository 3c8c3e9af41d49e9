"""Migrates the records of an earlier release, which had one row for each call of a skill, to totals for each version.

The calls themselves are in the call journal (`engine.stores.call_journal`), like those of all tools.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    MetaData,
    String,
    Table,
    case,
    func,
    insert,
    inspect,
    select,
)

from acquired_skills.store.totals import LATELY, TOTALS

_CALLS = Table(
    "skill_calls",
    MetaData(),
    Column("id", BigInteger, primary_key=True),
    Column("name", String(63)),
    Column("version", BigInteger),
    Column("ts", String(40)),
    Column("success", Boolean),
    Column("counted", Boolean),
    Column("latency_ms", Float),
)


def replace_by_totals(connection: Connection) -> None:
    """Drop the table of single calls, if it exists. Compute the totals from it first, if they do not exist yet."""
    if _CALLS.name not in inspect(connection).get_table_names():
        return
    if connection.execute(select(TOTALS.c.name).limit(1)).first() is None:
        _build_totals(connection)
    _CALLS.drop(connection)


def _build_totals(connection: Connection) -> None:
    version = (_CALLS.c.name, _CALLS.c.version)
    judged = _CALLS.c.success | _CALLS.c.counted
    place = func.row_number().over(partition_by=version, order_by=_CALLS.c.id.desc()).label("place")
    ranked = select(_CALLS, place).where(judged).subquery()
    newest = select(ranked.c.name, ranked.c.version, ranked.c.success).where(ranked.c.place <= LATELY)
    lately: dict[tuple[str, int], str] = {}
    for row in connection.execute(newest.order_by(ranked.c.id)):
        lately[row.name, row.version] = lately.get((row.name, row.version), "") + str(int(row.success))
    timed = _CALLS.c.success & _CALLS.c.latency_ms.is_not(None)
    totals = select(
        *version,
        func.count().label("calls"),
        func.sum(case((_CALLS.c.success, 1), else_=0)).label("successes"),
        func.sum(case((_CALLS.c.success | ~_CALLS.c.counted, 0), else_=1)).label("failures"),
        func.coalesce(func.sum(case((timed, _CALLS.c.latency_ms))), 0.0).label("total_ms"),
        func.sum(case((timed, 1), else_=0)).label("timed"),
        func.max(_CALLS.c.ts).label("last"),
    ).group_by(*version)
    rows = [
        {**row, "lately": lately.get((row["name"], row["version"]), "")}
        for row in connection.execute(totals).mappings()
    ]
    if rows:
        connection.execute(insert(TOTALS), rows)
