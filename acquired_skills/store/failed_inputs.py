"""`FailedInputs`: stores the arguments of failed calls, as test cases for a repair (SKILL-13).

Each input is stored with the user who sent it, and is not shown to other users.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, delete, insert, select, true

from acquired_skills.model.skill import SkillKind
from engine.contract.turn import Turn
from engine.policy.access import user_rank
from engine.stores.records import Records

MOST_KEPT = 10  # maximum number of inputs for one version and one user; older ones are deleted
MOST_OF_ALL = 100  # maximum number of inputs for one version, from all users together
MOST_NAME = 200
MOST_BYTES = 4_096  # maximum size of one call's arguments as JSON, in bytes; larger ones are not stored
MOST_TEXT = 300
UNKNOWN = "..."

_SCHEMA = MetaData()
_FAILED = Table(
    "skill_failed_calls",  # the table of earlier releases, `skill_failed_inputs`, has no users and is not read
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
    """The arguments of one failed call.

    Attributes:
        ts: The time of the call in UTC, ISO 8601.
        arguments: The arguments of the call, as JSON values.
        error: The end of the error message.
        user, agent: The user and the agent who made the call.
        right: The correct result as Python source; "..." if it is not known.
        raises: The type of the exception if that is the correct result; "" otherwise.
    """

    ts: str
    arguments: Mapping[str, Any]
    error: str
    user: str
    agent: str = ""
    right: str = UNKNOWN
    raises: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the correct result is known, because a user corrected it."""
        return bool(self.raises) or self.right != UNKNOWN


class FailedInputs:
    """Reads and writes the table of failed inputs. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Create the table if it is missing."""
        self._records = records
        records.create(_SCHEMA)

    def keep(self, name: str, version: int, failed: FailedInput) -> None:
        """Store a failed input, and delete the oldest ones above the limits.

        An input that is not JSON, or is too large, is ignored.
        """
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

    def forget(self, name: str, version: int) -> None:
        """Delete the failed inputs of a version that was withdrawn, because its number is used again."""
        with self._records.begin() as connection:
            connection.execute(delete(_FAILED).where((_FAILED.c.name == name) & (_FAILED.c.version == version)))

    def of(self, name: str, version: int, user: str | None) -> list[FailedInput]:
        """Return the failed inputs of a version, oldest first, without duplicates.

        Args:
            user: The user who made the calls; None for all users.
        """
        visible_user = true() if user is None else _FAILED.c.user == user
        of = (_FAILED.c.name == name) & (_FAILED.c.version == version) & visible_user
        with self._records.read() as connection:
            rows = {row.arguments: row for row in connection.execute(select(_FAILED).where(of).order_by(_FAILED.c.id))}
        return [FailedInput(row.ts, json.loads(row.arguments), row.error, row.user, row.agent) for row in rows.values()]


def visible_user(turn: Turn) -> str | None:
    """Return the user whose failed inputs may be shown in a turn; None for all users.

    Admins and owners may see the inputs of all users. Other users may see only their own.
    """
    return None if user_rank(turn.permission) >= user_rank("admin") else turn.user


def as_tests(name: str, failed: Sequence[FailedInput], kind: SkillKind = SkillKind.CODE) -> str:
    """Return test cases for the failed calls of a skill of this kind.

    If the correct result is not known, it is written as "...", and the author has to fill it in.
    """
    if kind in (SkillKind.NODE, SkillKind.BASH):
        return "\n".join(map(_as_case, failed))
    lines: list[str] = []
    for number, each in enumerate(failed, 1):
        said = ascii(each.error.strip())[1:-1]  # keeps the error on one line and safe on a terminal
        given = ", ".join(f"{key}={value!a}" for key, value in each.arguments.items())
        lines.append(f"def test_failed_{number}():  # {said}")
        if each.raises:
            lines += [f"    with pytest.raises({each.raises}):", f"        {name}({given})", "", ""]
        else:
            lines += [f"    assert {name}({given}) == {each.right}", "", ""]
    return "\n".join(lines).rstrip()


def _as_case(each: FailedInput) -> str:
    """Return a failed call as a test case of a Node or Bash skill (`acquired_skills.proof.programs.program_cases`)."""
    if each.raises:
        right = f'"raises": {json.dumps(each.raises)}'
    else:
        right = f'"result": {each.right if each.right == UNKNOWN else json.dumps(ast.literal_eval(each.right))}'
    return f'{{"arguments": {json.dumps(each.arguments)}, {right}}}  # {ascii(each.error.strip())[1:-1]}'
