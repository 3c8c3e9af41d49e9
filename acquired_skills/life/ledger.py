"""`Ledger`: skills and their calls as rows. The skill rows can be rebuilt from the folders at any time.

A row carries the generation of its last change, so a process reads only what another one changed. A removed skill
leaves its row behind, marked, for the same reason.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from acquired_skills.life.judgement import Counted
from acquired_skills.skill import Skill, SkillKind, SkillState
from engine.stores.records import Records

TOOLS = "tools"  # the generation that whoever changes the set of tools bumps

_SCHEMA = MetaData()
_SKILLS = Table(
    "skills",
    _SCHEMA,
    Column("name", String(63), primary_key=True),
    Column("generation", BigInteger, nullable=False, index=True),
    Column("removed", Boolean, nullable=False),
    Column("stamp", Text, nullable=False),
    Column("skill", Text, nullable=False),
)
_CHANGING = Table("skills_changing", _SCHEMA, Column("name", String(63), primary_key=True))
_CALLS = Table(
    "skill_calls",
    _SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False),
    Column("version", Integer, nullable=False),
    Column("ts", String(40), nullable=False),
    Column("success", Boolean, nullable=False),
    Column("counted", Boolean, nullable=False),
    Column("latency_ms", Float, nullable=True),
    Column("failure_class", String(20), nullable=True),
    Index("skill_calls_by_version", "name", "version"),
)


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One call of one version. ts: UTC, ISO 8601. counted: whether it speaks for or against the skill."""

    name: str
    version: int
    ts: str
    success: bool
    counted: bool
    latency_ms: float | None = None
    failure_class: str | None = None


@dataclass(frozen=True, slots=True)
class VersionStats:
    """All calls of one version. uncounted: failures that were not the skill's. mean_ms: of successful calls."""

    name: str
    version: int
    calls: int
    successes: int
    failures: int
    uncounted: int
    mean_ms: float | None
    last: str


@dataclass(frozen=True, slots=True)
class Row:
    """A skill row as read: `skill` is None when it was removed."""

    name: str
    generation: int
    stamp: str
    skill: Skill | None


class Ledger:
    """The tables `skills` and `skill_calls`."""

    def __init__(self, records: Records) -> None:
        self._records = records
        records.create(_SCHEMA)

    def generation(self) -> int:
        """Of the set of tools; cheap while nothing changed."""
        return self._records.generation(TOOLS)

    def rows(self, after: int = 0) -> list[Row]:
        """Rows changed after a generation, removed ones included; all of them by default."""
        query = select(_SKILLS).where(_SKILLS.c.generation > after).order_by(_SKILLS.c.name)
        with self._records.read() as connection:
            return [
                Row(one.name, one.generation, one.stamp, None if one.removed else _load(one.skill))
                for one in connection.execute(query)
            ]

    def announce(self, name: str) -> None:
        """Record, before anything else is written, that the folder of this skill is about to change."""
        with self._records.begin() as connection:
            connection.execute(self._records.insert(_CHANGING).values(name=name).on_conflict_do_nothing())

    def unfinished(self) -> list[str]:
        """Return the skills whose change was announced, and neither recorded by `put` nor withdrawn."""
        with self._records.read() as connection:
            return sorted(connection.execute(select(_CHANGING.c.name)).scalars())

    def withdraw(self, names: Iterable[str]) -> None:
        """Forget announced changes of skills whose rows are right as they are."""
        with self._records.begin() as connection:
            connection.execute(delete(_CHANGING).where(_CHANGING.c.name.in_(list(names))))

    def put(self, changed: Mapping[str, tuple[Skill, str]], removed: Iterable[str] = ()) -> None:
        """Write skills with their stamps, mark others removed, and bump the generation, in one transaction.

        Announced changes of these skills are finished by it.
        """
        removed = list(removed)
        with self._records.begin() as connection:
            generation = self._records.bump(TOOLS, connection)
            for name, (skill, stamp) in changed.items():
                values = {"generation": generation, "removed": False, "stamp": stamp, "skill": _dump(skill)}
                _upsert(connection, name, values)
            for name in removed:
                _upsert(connection, name, {"generation": generation, "removed": True, "stamp": "", "skill": ""})
            connection.execute(delete(_CHANGING).where(_CHANGING.c.name.in_([*changed, *removed])))

    def log(self, calls: Sequence[SkillCall]) -> None:
        """Append calls."""
        rows = [{column: getattr(call, column) for column in SkillCall.__dataclass_fields__} for call in calls]
        with self._records.begin() as connection:
            connection.execute(insert(_CALLS), rows)

    def forgive(self, name: str, version: int) -> None:
        """The failures of a version no longer count: it was given another chance."""
        of = (_CALLS.c.name == name) & (_CALLS.c.version == version) & ~_CALLS.c.success
        with self._records.begin() as connection:
            connection.execute(update(_CALLS).where(of).values(counted=False))

    def latest(self, name: str, version: int, most: int) -> Counted:
        """How the latest counted calls of a version went."""
        of = (_CALLS.c.name == name) & (_CALLS.c.version == version) & (_CALLS.c.success | _CALLS.c.counted)
        query = select(_CALLS.c.success).where(of).order_by(_CALLS.c.id.desc()).limit(most)
        with self._records.read() as connection:
            went = connection.execute(query).scalars().all()
        return Counted(sum(went), len(went) - sum(went))

    def stats(self, name: str | None = None) -> list[VersionStats]:
        """Per version, newest version first; of one skill or of all."""
        calls = _CALLS.c
        good, bad = case((calls.success, 1), else_=0), case((calls.success | ~calls.counted, 0), else_=1)
        query = select(
            calls.name,
            calls.version,
            func.count().label("calls"),
            func.sum(good).label("successes"),
            func.sum(bad).label("failures"),
            func.avg(case((calls.success, calls.latency_ms))).label("mean_ms"),
            func.max(calls.ts).label("last"),
        ).group_by(calls.name, calls.version)
        if name is not None:
            query = query.where(calls.name == name)
        with self._records.read() as connection:
            found = connection.execute(query.order_by(calls.name, calls.version.desc())).all()
        return [
            VersionStats(
                name=one.name,
                version=one.version,
                calls=one.calls,
                successes=int(one.successes),
                failures=int(one.failures),
                uncounted=one.calls - int(one.successes) - int(one.failures),
                mean_ms=one.mean_ms,
                last=one.last,
            )
            for one in found
        ]


def _upsert(connection: Connection, name: str, values: Mapping[str, Any]) -> None:
    # The records' write lock is held, so nobody comes between the two statements.
    if not connection.execute(update(_SKILLS).where(_SKILLS.c.name == name).values(**values)).rowcount:
        connection.execute(insert(_SKILLS).values(name=name, **values))


def _dump(skill: Skill) -> str:
    return json.dumps({field: getattr(skill, field) for field in Skill.__dataclass_fields__})


def _load(text: str) -> Skill:
    values: dict[str, Any] = json.loads(text)
    tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    kind = SkillKind(values.get("kind", SkillKind.CODE))  # rows of before there were others do not say
    return Skill(**{**values, **tuples, "state": SkillState(values["state"]), "kind": kind})
