"""`CorrectedCalls`: stores calls with their correct results, which later versions of a skill must return (SKILL-13).

Unlike failed inputs, corrections belong to the skill and not to the user who made them. Like the skill's tests, they
are shown to every author of a new version.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text, select, update

from acquired_skills.model.skill import SkillError
from engine.stores.records import Records

MOST_KEPT = 50  # maximum number of corrections that apply to one skill
MOST_BYTES = 4_096  # maximum size of the arguments and of the result, each, as JSON in bytes
MOST_NAME = 200

_SCHEMA = MetaData()
_CORRECTED = Table(
    "skill_corrections",
    _SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("expect", Text, nullable=True),  # null if the correct result is an exception
    Column("raises", String(MOST_NAME), nullable=False),
    Column("ts", String(40), nullable=False),
    Column("user", String(MOST_NAME), nullable=False),
    Column("applies", Boolean, nullable=False),  # false if it was withdrawn or replaced
    Index("skill_corrections_by_name", "name", "applies"),
)


@dataclass(frozen=True, slots=True)
class CorrectedCall:
    """A call and its correct result.

    Attributes:
        arguments: The arguments of the call, as JSON values.
        expect: The correct value, as JSON.
        raises: The type of the exception if that is the correct result, such as ``ValueError``; "" for a value.
        ts: The time of the correction in UTC, ISO 8601.
        user: The user who made the correction.
    """

    arguments: Mapping[str, Any]
    expect: Any = None
    raises: str = ""
    ts: str = ""
    user: str = ""

    @property
    def right(self) -> str:
        """The correct result, as Python source or as the name of an exception."""
        return self.raises or ascii(self.expect)


class CorrectedCalls:
    """Stores the corrections of all skills in a table. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Create the table if it is missing."""
        self._records = records
        records.create(_SCHEMA)

    def of(self, name: str) -> list[CorrectedCall]:
        """Return the corrections that apply to a skill, oldest first."""
        query = select(_CORRECTED).where(_applying(name)).order_by(_CORRECTED.c.id)
        with self._records.read() as connection:
            return [
                CorrectedCall(json.loads(row.arguments), json.loads(row.expect or "null"), row.raises, row.ts, row.user)
                for row in connection.execute(query)
            ]

    def keep(self, name: str, call: CorrectedCall) -> bool:
        """Store a correction, which replaces an earlier one of the same call. Return False if it is already stored.

        Raises:
            SkillError: The correction is too large, or the skill has too many corrections.
        """
        arguments, expect = _dump(call.arguments), None if call.raises else _dump(call.expect)
        if max(len(arguments), len(expect or ""), len(call.raises)) > MOST_BYTES or len(call.raises) > MOST_NAME:
            raise SkillError(
                f"The correction is too large: its arguments and its result may each have at most {MOST_BYTES:,} bytes "
                "as JSON. Correct a smaller call."
            )
        same = _applying(name) & (_CORRECTED.c.arguments == arguments)
        with self._records.begin() as connection:
            before = connection.execute(select(_CORRECTED).where(same)).first()
            if before is not None and (before.expect, before.raises) == (expect, call.raises):
                return False
            connection.execute(update(_CORRECTED).where(same).values(applies=False))
            if len(connection.execute(select(_CORRECTED.c.id).where(_applying(name))).all()) >= MOST_KEPT:
                raise SkillError(
                    f"`{name}` has {MOST_KEPT} corrections, the maximum. Turn them into tests of a new version, and "
                    f"withdraw those that its tests cover: `knackbox skills correct {name} ARGUMENTS --withdraw`."
                )
            row = {"name": name, "arguments": arguments, "expect": expect, "raises": call.raises, "applies": True}
            connection.execute(_CORRECTED.insert().values(row | {"ts": call.ts, "user": call.user[:MOST_NAME]}))
        return True

    def withdraw(self, name: str, arguments: Mapping[str, Any] | None = None) -> int:
        """Withdraw the correction of one call, or all corrections of a skill. Return how many were withdrawn."""
        those = _applying(name)
        if arguments is not None:
            those &= _CORRECTED.c.arguments == _dump(arguments)
        with self._records.begin() as connection:
            return connection.execute(update(_CORRECTED).where(those).values(applies=False)).rowcount


def _applying(name: str) -> Any:
    return (_CORRECTED.c.name == name) & _CORRECTED.c.applies


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        text = "The correction has a value that is not JSON. Use JSON values, without NaN and infinity."
        raise SkillError(text) from None
