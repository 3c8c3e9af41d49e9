"""Keeps running totals of the calls of every version of a skill.

Statistics are read from the totals, so they are cheap and stay correct after old calls are deleted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    func,
    insert,
    select,
    tuple_,
    update,
)

# How many of the latest calls are also judged separately. Otherwise a long good record would hide that a skill now
# fails every time, for example because a service changed.
LATELY = 5
_AT_ONCE = 500  # maximum number of versions in one statement

SCHEMA = MetaData()
TOTALS = Table(
    "skill_totals",
    SCHEMA,
    Column("name", String(63), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("total_ms", Float, nullable=False),
    Column("timed", BigInteger, nullable=False),
    Column("last", String(40), nullable=False),
    Column("lately", String(LATELY), nullable=False),
)


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One call of one version of a skill.

    Attributes:
        ts: The time of the call in UTC, ISO 8601.
        counted: Whether the call counts for or against the skill.
    """

    name: str
    version: int
    ts: str
    success: bool
    counted: bool
    latency_ms: float | None = None
    failure_class: str | None = None


@dataclass(frozen=True, slots=True)
class VersionStats:
    """Statistics of all calls of one version of a skill.

    Attributes:
        uncounted: The number of failures that were not the skill's fault.
        mean_ms: Mean latency of successful calls in milliseconds.
    """

    name: str
    version: int
    calls: int
    successes: int
    failures: int
    uncounted: int
    mean_ms: float | None
    last: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of calls of a version that count as successes, and the number that count as failures."""

    successes: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Total:
    """One row of the table of totals.

    Attributes:
        total_ms, timed: The sum of the latencies of successful calls in milliseconds, and the number of these calls.
        lately: The outcomes of the latest counted calls, newest last: "1" for a success, "0" for a failure.
    """

    calls: int = 0
    successes: int = 0
    failures: int = 0
    total_ms: float = 0.0
    timed: int = 0
    last: str = ""
    lately: str = ""

    def add(self, call: SkillCall) -> None:
        self.calls += 1
        self.successes += call.success
        self.failures += call.counted and not call.success
        if call.success and call.latency_ms is not None:
            self.total_ms += call.latency_ms
            self.timed += 1
        self.last = max(self.last, call.ts)
        if call.success or call.counted:
            self.lately = f"{self.lately}{int(call.success)}"[-LATELY:]

    def values(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in _Total.__dataclass_fields__}


def add(connection: Connection, calls: Iterable[SkillCall]) -> None:
    """Add calls, given oldest first, to the totals of the called versions."""
    by_version: dict[tuple[str, int], list[SkillCall]] = {}
    for call in calls:
        by_version.setdefault((call.name, call.version), []).append(call)
    keys = list(by_version)
    known: dict[tuple[str, int], _Total] = {}
    for start in range(0, len(keys), _AT_ONCE):
        among = tuple_(TOTALS.c.name, TOTALS.c.version).in_(keys[start : start + _AT_ONCE])
        for row in connection.execute(select(TOTALS).where(among)).mappings():
            known[row["name"], row["version"]] = _Total(**{key: row[key] for key in _Total.__dataclass_fields__})
    for key, more in by_version.items():
        total = known.get(key) or _Total()
        for call in more:
            total.add(call)
        if key in known:
            connection.execute(update(TOTALS).where(_is(*key)).values(total.values()))
        else:
            connection.execute(insert(TOTALS).values(name=key[0], version=key[1], **total.values()))


def forgive(connection: Connection, name: str, version: int) -> None:
    """Reset the failure count of a version. Later failures count again."""
    lately = func.replace(TOTALS.c.lately, "0", "")
    connection.execute(update(TOTALS).where(_is(name, version)).values(failures=0, lately=lately))


def latest(connection: Connection, name: str, version: int) -> Counted:
    """Count the successes and failures among the latest `LATELY` counted calls of a version."""
    lately = connection.execute(select(TOTALS.c.lately).where(_is(name, version))).scalar() or ""
    return Counted(lately.count("1"), lately.count("0"))


def stats(connection: Connection, chosen: Select[Any]) -> list[VersionStats]:
    """Return the statistics of each version, sorted by name, with the newest version first.

    Args:
        chosen: Selects the rows of `TOTALS`.
    """
    found = connection.execute(chosen.order_by(TOTALS.c.name, TOTALS.c.version.desc())).all()
    return [
        VersionStats(
            name=one.name,
            version=one.version,
            calls=one.calls,
            successes=one.successes,
            failures=one.failures,
            uncounted=one.calls - one.successes - one.failures,
            mean_ms=one.total_ms / one.timed if one.timed else None,
            last=one.last,
        )
        for one in found
    ]


def _is(name: str, version: int) -> Any:
    return (TOTALS.c.name == name) & (TOTALS.c.version == version)
