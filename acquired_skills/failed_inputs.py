"""`FailedInputs`: what a skill was called with when it failed, kept so that a repair has its test cases (SKILL-13)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, delete, insert, select

from engine.stores.records import Records

MOST_KEPT = 10  # of one version, the latest
MOST_BYTES = 4_096  # of one call's arguments, as JSON; a larger one is not kept
MOST_TEXT = 300

_SCHEMA = MetaData()
_FAILED = Table(
    "skill_failed_inputs",
    _SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False),
    Column("version", Integer, nullable=False),
    Column("ts", String(40), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("error", Text, nullable=False),
    Index("skill_failed_inputs_by_version", "name", "version"),
)


@dataclass(frozen=True, slots=True)
class FailedInput:
    """ts: UTC, ISO 8601. arguments: of the call, JSON. error: the end of what was said of the failure."""

    ts: str
    arguments: Mapping[str, Any]
    error: str


class FailedInputs:
    """In the records. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Makes its table when it is missing."""
        self._records = records
        records.create(_SCHEMA)

    def keep(self, name: str, version: int, failed: FailedInput) -> None:
        """Keep one, and forget the oldest of too many. One that is no JSON, or too large, is not kept."""
        try:
            arguments = json.dumps(dict(failed.arguments), allow_nan=False)
        except (TypeError, ValueError):
            return
        if len(arguments) > MOST_BYTES:
            return
        of = (_FAILED.c.name == name) & (_FAILED.c.version == version)
        row = {"name": name, "version": version, "ts": failed.ts, "arguments": arguments, "error": failed.error}
        with self._records.begin() as connection:
            connection.execute(insert(_FAILED).values(row | {"error": failed.error[-MOST_TEXT:]}))
            ids = list(connection.execute(select(_FAILED.c.id).where(of).order_by(_FAILED.c.id.desc())).scalars())
            if len(ids) > MOST_KEPT:
                connection.execute(delete(_FAILED).where(of & (_FAILED.c.id <= ids[MOST_KEPT])))

    def of(self, name: str, version: int) -> list[FailedInput]:
        """Those of a version, oldest first, none twice."""
        query = select(_FAILED).where((_FAILED.c.name == name) & (_FAILED.c.version == version)).order_by(_FAILED.c.id)
        with self._records.read() as connection:
            rows = {row.arguments: row for row in connection.execute(query)}
        return [FailedInput(row.ts, json.loads(row.arguments), row.error) for row in rows.values()]


def as_tests(name: str, failed: Sequence[FailedInput]) -> str:
    """Test cases to complete: what each call should have given, nobody here knows."""
    lines: list[str] = []
    for number, each in enumerate(failed, 1):
        said = ascii(each.error.strip())[1:-1]  # on one line, and nothing in it does anything to a terminal
        given = ", ".join(f"{key}={value!a}" for key, value in each.arguments.items())
        lines += [f"def test_failed_{number}():  # {said}", f"    assert {name}({given}) == ...", "", ""]
    return "\n".join(lines).rstrip()
