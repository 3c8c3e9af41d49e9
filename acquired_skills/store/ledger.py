"""`Ledger`: stores the database rows of skills, and the totals of their calls.

The rows of skills can be rebuilt from the folders at any time. A skill is listed if it is on probation or active.
A row has a stamp, a text that changes whenever a file of the skill changes. A generation is a counter that every change
increments. Each row has the generation of its last change, so that a process only needs to read the rows that other
processes changed. For the same reason, the row of a removed skill is kept and marked as removed. The totals of every
version's calls are kept permanently (`acquired_skills.store.totals`). The calls themselves are in the engine's call
journal.
"""

import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from acquired_skills.model.skill import Skill, SkillKind, SkillState
from acquired_skills.store import past_requests, single_calls, totals
from acquired_skills.store.totals import Counted, SkillCall, VersionStats
from engine.stores.records import Records, add_missing_columns

TOOLS = "tools"  # name of the generation that every change of the set of tools increments
_AT_ONCE = 500  # maximum number of names in one query
_IDENTITY = "#identity"  # key of the row in the table of scanned folders that holds the identity

_SCHEMA = MetaData()
_SKILLS = Table(
    "skills",
    _SCHEMA,
    Column("name", String(63), primary_key=True),
    Column("generation", BigInteger, nullable=False, index=True),
    Column("removed", Boolean, nullable=False),
    Column("stamp", Text, nullable=False),
    Column("skill", Text, nullable=False),
    Column("version", Integer, nullable=True),
    Column("listed", Boolean, nullable=True),
)
_CHANGING = Table("skills_changing", _SCHEMA, Column("name", String(63), primary_key=True))
_BY_LISTED = Index("skills_by_listed", _SKILLS.c.listed, _SKILLS.c.name)
_BY_CHANGE = Index("skills_by_change", _SKILLS.c.generation, _SKILLS.c.name)
_UNPUBLISHED = Table("skills_untold", _SCHEMA, Column("name", String(63), primary_key=True))
_SCANS = Table(
    "skill_scans",
    _SCHEMA,
    Column("root", String(500), primary_key=True),
    Column("stamp", String(100), nullable=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a skill. `skill` is None if the skill was removed."""

    name: str
    generation: int
    stamp: str
    skill: Skill | None


class Ledger:
    """Reads and writes the tables `skills` and `skill_totals`, and related ones. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Create missing tables, and upgrade those of an earlier release."""
        self._records = records
        _prepare(records)

    def generation(self) -> int:
        """Return the current generation of the rows of skills. This is cheap while nothing changes."""
        return self._records.generation(TOOLS)

    # The skills.

    def rows(self, after: int = 0) -> list[Row]:
        """Return the rows that changed after a generation, including removed ones; by default, all rows."""
        query = select(_SKILLS).where(_SKILLS.c.generation > after).order_by(_SKILLS.c.name)
        with self._records.read() as connection:
            return [_row(one) for one in connection.execute(query)]

    def changed(self, after: tuple[int, str], limit: int) -> list[Row]:
        """Return the next rows in the order of their changes, including removed ones.

        Args:
            after: Generation and name of the last row that was read.
        """
        place = tuple_(_SKILLS.c.generation, _SKILLS.c.name)
        query = select(_SKILLS).where(place > tuple_(*after)).order_by(_SKILLS.c.generation, _SKILLS.c.name)
        with self._records.read() as connection:
            return [_row(one) for one in connection.execute(query.limit(limit))]

    def count_changed(self, after: tuple[int, str]) -> int:
        """Return the number of rows that `changed` would return without a limit."""
        place = tuple_(_SKILLS.c.generation, _SKILLS.c.name)
        with self._records.read() as connection:
            return connection.execute(select(func.count()).where(place > tuple_(*after))).scalar_one()

    def find(self, names: Collection[str]) -> dict[str, Row]:
        """Return the rows of these skills by name, except removed ones."""
        found: dict[str, Row] = {}
        wanted = list(names)
        with self._records.read() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                among = _SKILLS.c.name.in_(wanted[start : start + _AT_ONCE])
                rows = connection.execute(select(_SKILLS).where(among & ~_SKILLS.c.removed))
                found.update((one.name, _row(one)) for one in rows)
        return found

    def page(self, after: str = "", limit: int | None = None, *, listed: bool = False) -> list[Row]:
        """Return one page of the rows, sorted by name, except removed ones.

        Args:
            after: The last name of the previous page.
            limit: The size of a page; None for no limit.
            listed: Whether to return only listed skills.
        """
        query = select(_SKILLS).where((_SKILLS.c.name > after) & ~_SKILLS.c.removed)
        if listed:
            query = query.where(_SKILLS.c.listed)
        with self._records.read() as connection:
            return [_row(one) for one in connection.execute(query.order_by(_SKILLS.c.name).limit(limit))]

    def count(self, *, listed: bool = False) -> int:
        """Return the number of skills.

        Args:
            listed: Whether to count only listed skills.
        """
        which = _SKILLS.c.listed.is_(True) if listed else _SKILLS.c.listed.is_not(None)
        with self._records.read() as connection:
            return connection.execute(select(func.count()).select_from(_SKILLS).where(which)).scalar_one()

    def names(self, *, listed: bool = False) -> list[str]:
        """Return the names of all skills, or only of listed ones, sorted."""
        query = select(_SKILLS.c.name).where(~_SKILLS.c.removed)
        if listed:
            query = query.where(_SKILLS.c.listed)
        with self._records.read() as connection:
            return list(connection.execute(query.order_by(_SKILLS.c.name)).scalars())

    def announce(self, name: str) -> None:
        """Record that the folder of this skill is about to change, before anything else is written."""
        with self._records.begin() as connection:
            connection.execute(self._records.insert(_CHANGING).values(name=name).on_conflict_do_nothing())

    def unfinished(self) -> list[str]:
        """Return the names of skills whose announced change was neither written with `put` nor withdrawn."""
        with self._records.read() as connection:
            return sorted(connection.execute(select(_CHANGING.c.name)).scalars())

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete the announced changes of skills whose rows agree with their folders."""
        names = list(names)
        if names:
            with self._records.begin() as connection:
                connection.execute(delete(_CHANGING).where(_CHANGING.c.name.in_(names)))

    def put(self, changed: Mapping[str, tuple[Skill, str]], removed: Iterable[str] = ()) -> None:
        """Write the rows of skills, mark others as removed, and increment the generation, in one transaction.

        This finishes the announced changes of these skills. Their changes are unpublished until `mark_published`.

        Args:
            changed: The skills and the stamps of their files, by name.
            removed: The names of removed skills.
        """
        gone = list(removed)
        with self._records.begin() as connection:
            generation = self._records.bump(TOOLS, connection)
            for name, (skill, stamp) in changed.items():
                values = {"removed": False, "stamp": stamp, "skill": _dump(skill)}
                values |= {"version": skill.version, "listed": skill.state.listed}
                _upsert(connection, name, {"generation": generation, **values})
            for name in gone:
                values = {"removed": True, "stamp": "", "skill": "", "version": None, "listed": None}
                _upsert(connection, name, {"generation": generation, **values})
            for start in range(0, len(gone), _AT_ONCE):
                past_requests.forget(connection, gone[start : start + _AT_ONCE])
            names = [*changed, *gone]
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                connection.execute(delete(_CHANGING).where(_CHANGING.c.name.in_(some)))
                connection.execute(delete(_UNPUBLISHED).where(_UNPUBLISHED.c.name.in_(some)))
                connection.execute(insert(_UNPUBLISHED), [{"name": name} for name in some])

    def unpublished(self) -> list[str]:
        """Return the names of the skills whose last change was not published, because the process ended first."""
        with self._records.read() as connection:
            return list(connection.execute(select(_UNPUBLISHED.c.name).order_by(_UNPUBLISHED.c.name)).scalars())

    def mark_published(self, names: Iterable[str]) -> None:
        """Record that the events of these skills are in the event log."""
        some = sorted({*names} & {*self.unpublished()})
        if some:
            with self._records.begin() as connection:
                for start in range(0, len(some), _AT_ONCE):
                    connection.execute(
                        delete(_UNPUBLISHED).where(_UNPUBLISHED.c.name.in_(some[start : start + _AT_ONCE]))
                    )

    def stamps(self, after: str, limit: int, *, listed: bool = False) -> dict[str, str]:
        """Return the stamps of the next skills in the order of their names.

        Args:
            after: The last name that was read.
            listed: Whether to return only listed skills.
        """
        query = select(_SKILLS.c.name, _SKILLS.c.stamp).where((_SKILLS.c.name > after) & ~_SKILLS.c.removed)
        if listed:
            query = query.where(_SKILLS.c.listed)
        with self._records.read() as connection:
            return {one.name: one.stamp for one in connection.execute(query.order_by(_SKILLS.c.name).limit(limit))}

    def identity(self) -> str:
        """Return an identifier of this set of rows, which changes if the database is lost and created again."""
        return self.scanned(_IDENTITY)

    def scanned(self, root: str) -> str:
        """Return the stamp of a folder of skills from its last comparison with the rows of the database.

        The comparison is between the names of the skills' folders and the rows. The stamp is "" if there was none.
        """
        with self._records.read() as connection:
            return connection.execute(select(_SCANS.c.stamp).where(_SCANS.c.root == root)).scalar() or ""

    def scan(self, root: str, stamp: str) -> None:
        """Record that the names in the folder were compared with the rows. `stamp` was taken before the comparison."""
        if self._records.read_only:
            return  # the disk is full, so the next scan compares the names again
        with self._records.begin() as connection:
            connection.execute(delete(_SCANS).where(_SCANS.c.root == root))
            connection.execute(insert(_SCANS).values(root=root, stamp=stamp))

    # The calls of skills.

    def log(self, calls: Sequence[SkillCall]) -> None:
        """Add calls, given oldest first, to the totals of the called versions."""
        with self._records.begin() as connection:
            totals.add(connection, calls)

    def forget_calls(self, name: str, version: int) -> None:
        """Delete the totals of a version that was withdrawn, because its number is used again."""
        of = (totals.TOTALS.c.name == name) & (totals.TOTALS.c.version == version)
        with self._records.begin() as connection:
            connection.execute(delete(totals.TOTALS).where(of))

    def forgive(self, name: str, version: int) -> None:
        """Reset the failure count of a version. Later failures count again."""
        with self._records.begin() as connection:
            totals.forgive(connection, name, version)

    def latest(self, name: str, version: int) -> Counted:
        """Count the successes and failures among the latest `LATELY` counted calls of a version."""
        with self._records.read() as connection:
            return totals.latest(connection, name, version)

    def stats(
        self, names: Collection[str] | None = None, limit: int | None = None, after: str = ""
    ) -> list[VersionStats]:
        """Return the statistics of each version, sorted by name, with the newest version first.

        Args:
            names: The names of the skills; None for all skills.
            after: Return only the statistics of skills whose name comes after this one.
        """
        if names is not None and not names:
            return []
        query = select(totals.TOTALS)
        if names is not None:
            query = query.where(totals.TOTALS.c.name.in_(list(names)))
        if after:
            query = query.where(totals.TOTALS.c.name > after)
        with self._records.read() as connection:
            return totals.stats(connection, query.limit(limit))

    def failing(self, names: Sequence[str]) -> list[VersionStats]:
        """Return the statistics of the current versions of these skills that have failed at least once."""
        same = (totals.TOTALS.c.name == _SKILLS.c.name) & (totals.TOTALS.c.version == _SKILLS.c.version)
        query = select(totals.TOTALS).join(_SKILLS, same).where(totals.TOTALS.c.failures > 0)
        found: list[VersionStats] = []
        with self._records.read() as connection:
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                found += totals.stats(connection, query.where(totals.TOTALS.c.name.in_(some)))
        return found


def _prepare(records: Records) -> None:
    """Create missing tables, and migrate those of an earlier release."""
    records.create(_SCHEMA)
    records.create(totals.SCHEMA)
    records.create(past_requests.SCHEMA)
    if records.read_only:  # the disk is full, so the migration is left for later
        return
    with records.begin() as connection:
        if "listed" in add_missing_columns(connection, _SKILLS):
            for index in (_BY_LISTED, _BY_CHANGE):
                index.create(connection, checkfirst=True)
            for one in connection.execute(select(_SKILLS).where(~_SKILLS.c.removed)).all():
                skill = _load(one.skill)
                values = {"version": skill.version, "listed": skill.state.listed}
                connection.execute(update(_SKILLS).where(_SKILLS.c.name == one.name).values(values))
        past_requests.widen_names(connection)
        single_calls.replace_by_totals(connection)
        if connection.execute(select(_SCANS.c.stamp).where(_SCANS.c.root == _IDENTITY)).first() is None:
            connection.execute(insert(_SCANS).values(root=_IDENTITY, stamp=secrets.token_hex(8)))


def _upsert(connection: Connection, name: str, values: Mapping[str, Any]) -> None:
    # The write lock of the records is held, so no other process writes between the two statements.
    if not connection.execute(update(_SKILLS).where(_SKILLS.c.name == name).values(**values)).rowcount:
        connection.execute(insert(_SKILLS).values(name=name, **values))


def _row(one: Any) -> Row:
    return Row(one.name, one.generation, one.stamp, None if one.removed else _load(one.skill))


def _dump(skill: Skill) -> str:
    return json.dumps({field: getattr(skill, field) for field in Skill.__dataclass_fields__})


def _load(text: str) -> Skill:
    values: dict[str, Any] = json.loads(text)
    tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    kind = SkillKind(values.get("kind", SkillKind.CODE))  # rows of releases without composed skills have no kind
    return Skill(**{**values, **tuples, "state": SkillState(values["state"]), "kind": kind})
