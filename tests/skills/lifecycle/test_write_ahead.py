"""A change of a skill is atomic, even if one of its steps fails (SKILL-10)."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import Skill, SkillMissing, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.skill_store import SkillStore
from tests.skills.parts import opened_library, opened_records, proposal, skill

pytestmark = pytest.mark.spec("SKILL-10")

Change = Callable[[SkillLibrary], Awaitable[object]]


def version(number: int) -> tuple[Skill, bytes, bytes]:
    proposed = proposal("add_one", f"return number + 1  # {number}")
    code, tests = proposed.code.encode(), proposed.tests.encode()
    return skill("add_one", number, code, tests), code, tests


async def publish(library: SkillLibrary, number: int) -> None:
    made, code, tests = version(number)
    wanted = proposal("add_one")
    await library.publish(
        made, type(wanted)(wanted.name, wanted.description, code.decode(), tests.decode()), number - 1
    )


CHANGES: dict[str, Change] = {
    "a new version": lambda library: publish(library, 3),
    "a new state": lambda library: library.set_state("add_one", SkillState.DISABLED),
    "a rollback": lambda library: library.rollback("add_one"),
    "a delete": lambda library: library.delete("add_one"),
}


@asynccontextmanager
async def two_versions(home: Path) -> AsyncIterator[SkillLibrary]:
    async with opened_library(home) as library:
        await publish(library, 1)
        await publish(library, 2)
        yield library


@contextmanager
def refused_rows(home: Path, table: str) -> Iterator[None]:
    """Make the database refuse every write to one table."""
    with closing(sqlite3.connect(home / "records.db", isolation_level=None)) as raw:
        for kind in ("INSERT", "UPDATE"):
            raw.execute(
                f"CREATE TRIGGER refuse_{kind} BEFORE {kind} ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
        yield
        for kind in ("INSERT", "UPDATE"):
            raw.execute(f"DROP TRIGGER refuse_{kind}")


def on_disk(home: Path) -> Skill | None:
    try:
        return SkillStore(home / "acquired_skills").read("add_one")
    except SkillMissing:
        return None


def in_records(home: Path) -> Skill | None:
    with opened_records(home) as records:
        return next((row.skill for row in Ledger(records).rows() if row.name == "add_one"), None)


def announced(home: Path) -> list[str]:
    with opened_records(home) as records:
        return Ledger(records).unfinished()


@pytest.mark.parametrize("table", ["skills", "skills_changing"])
@pytest.mark.parametrize("kind", CHANGES)
async def test_a_change_is_undone_if_its_row_cannot_be_written(tmp_path: Path, kind: str, table: str) -> None:
    async with two_versions(tmp_path) as library:
        before = on_disk(tmp_path)
        with refused_rows(tmp_path, table), pytest.raises(Exception, match="refused"):
            await CHANGES[kind](library)
        assert on_disk(tmp_path) == before == in_records(tmp_path)
        assert list((tmp_path / "acquired_skills" / ".staging").iterdir()) == []
        assert (await library.get("add_one")).version == 2
        await CHANGES[kind](library)
        assert on_disk(tmp_path) == in_records(tmp_path) != before
        assert announced(tmp_path) == []


async def test_a_restore_is_undone_if_its_row_cannot_be_written(tmp_path: Path) -> None:
    async with two_versions(tmp_path) as library:
        await library.delete("add_one")
        with refused_rows(tmp_path, "skills"), pytest.raises(Exception, match="refused"):
            await library.restore("add_one")
        assert on_disk(tmp_path) is None
        assert in_records(tmp_path) is None
        assert (await library.restore("add_one")).version == 2


@pytest.mark.parametrize("done", [True, False], ids=["after its folder changed", "before its folder changed"])
@pytest.mark.parametrize("who", ["the next change", "the next start"])
async def test_the_next_process_finishes_a_change_that_a_killed_process_announced(
    tmp_path: Path, done: bool, who: str
) -> None:
    async with two_versions(tmp_path) as library:
        with opened_records(tmp_path) as records:
            Ledger(records).announce("add_one")
        if done:
            store = SkillStore(tmp_path / "acquired_skills")
            with store.lock():
                store.delete("add_one")
        if who == "the next change":
            await library.publish(*other_skill())
            assert in_records(tmp_path) == on_disk(tmp_path)
            assert announced(tmp_path) == []
            assert (await library.find("add_one") is None) == done
    async with opened_library(tmp_path) as library:
        assert (await library.find("add_one") is None) == done
        assert announced(tmp_path) == []


def other_skill() -> tuple[Skill, object, int]:
    proposed = proposal("add_two", "return number + 2")
    return skill("add_two", 1, proposed.code.encode(), proposed.tests.encode()), proposed, 0
