"""`FailedInputs`: what a skill was called with when it failed, kept so that a repair has its test cases (SKILL-13).

Each is kept with whose call it was: what one user sent is not another one's to read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, delete, insert, select, true

from engine.contract.turn import Turn
from engine.policy.access import user_rank
from engine.stores.records import Records

MOST_KEPT = 10  # of one version and one user, the latest
MOST_OF_ALL = 100  # of one version, whoever called it
MOST_NAME = 200
MOST_BYTES = 4_096  # of one call's arguments, as JSON; a larger one is not kept
MOST_TEXT = 300

_SCHEMA = MetaData()
_FAILED = Table(
    "skill_failed_calls",  # its predecessor, `skill_failed_inputs`, does not say whose they were, so it is not read
    _SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False),
    Column("version", Integer, nullable=False),
    Column("user", String(MOST_NAME), nullable=False),
    Column("agent", String(MOST_NAME), nullable=False),
    Column("ts", String(40), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("error", Text, nullable=False),
    Index("skill_failed_calls_by_version", "name", "version"),
)


@dataclass(frozen=True, slots=True)
class FailedInput:
    """ts: UTC, ISO 8601. arguments: of the call, JSON. error: the end of what was said of the failure.

    user, agent: whose call it was.
    """

    ts: str
    arguments: Mapping[str, Any]
    error: str
    user: str
    agent: str = ""


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
        if len(arguments) > MOST_BYTES or max(len(failed.user), len(failed.agent)) > MOST_NAME:
            return
        row = {"name": name, "version": version, "user": failed.user, "agent": failed.agent, "ts": failed.ts}
        row |= {"arguments": arguments, "error": failed.error[-MOST_TEXT:].encode(errors="replace").decode()}
        of = (_FAILED.c.name == name) & (_FAILED.c.version == version)
        with self._records.begin() as connection:
            connection.execute(insert(_FAILED).values(row))
            for those, most in ((of & (_FAILED.c.user == failed.user), MOST_KEPT), (of, MOST_OF_ALL)):
                newest = select(_FAILED.c.id).where(those).order_by(_FAILED.c.id.desc())
                too_old = connection.execute(newest.offset(most).limit(1)).scalar()
                if too_old is not None:
                    connection.execute(delete(_FAILED).where(those & (_FAILED.c.id <= too_old)))

    def of(self, name: str, version: int, user: str | None) -> list[FailedInput]:
        """Those of a version that this user's calls left, oldest first, none twice. user: None for everybody's."""
        whose = true() if user is None else _FAILED.c.user == user
        of = (_FAILED.c.name == name) & (_FAILED.c.version == version) & whose
        with self._records.read() as connection:
            rows = {row.arguments: row for row in connection.execute(select(_FAILED).where(of).order_by(_FAILED.c.id))}
        return [FailedInput(row.ts, json.loads(row.arguments), row.error, row.user, row.agent) for row in rows.values()]


def whose(turn: Turn) -> str | None:
    """Whose inputs may be shown in a turn: the user's own, and everybody's (None) to admins and owners."""
    return None if user_rank(turn.permission) >= user_rank("admin") else turn.user


def as_tests(name: str, failed: Sequence[FailedInput]) -> str:
    """Test cases to complete: what each call should have given, nobody here knows."""
    lines: list[str] = []
    for number, each in enumerate(failed, 1):
        said = ascii(each.error.strip())[1:-1]  # on one line, and nothing in it does anything to a terminal
        given = ", ".join(f"{key}={value!a}" for key, value in each.arguments.items())
        lines += [f"def test_failed_{number}():  # {said}", f"    assert {name}({given}) == ...", "", ""]
    return "\n".join(lines).rstrip()
