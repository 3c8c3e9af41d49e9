"""The cost of many skills. Opening reads only changes, searches do not wait, and manual changes are detected in use."""

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.tools.skill_source import SkillSource
from engine.contract.turn import Turn
from tests.skills.parts import opened_library, opened_records, skill
from tests.skills.store.test_skill_store import publish

NAMES = ("add_one", "add_two", "take_three")


def settled(home: Path) -> None:
    """Make the folder of all skills look unchanged for a while."""
    os.utime(home / "acquired_skills", (1_700_000_000, 1_700_000_000))


@contextmanager
def reads() -> Iterator[list[str]]:
    """Collect the paths that are opened or listed below a folder of skills, except the lock and the staging folder."""
    found: list[str] = []
    listening = True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event in ("open", "os.listdir", "os.scandir") and "acquired_skills/" in f"{arguments[0]}/":
            found.append(str(arguments[0]))

    sys.addaudithook(hear)  # an audit hook cannot be removed
    try:
        yield found
    finally:
        listening = False


def made(home: Path, *names: str) -> SkillStore:
    store = SkillStore(home / "acquired_skills")
    for name in names:
        publish(store, name)
    settled(home)
    return store


@pytest.mark.spec("STATE-4")
async def test_opening_reads_no_skill_folders_if_nothing_changed(tmp_path: Path) -> None:
    store = made(tmp_path, *NAMES)
    async with opened_library(tmp_path) as library:
        assert [one.name for one in await library.skills()] == list(NAMES)
    with reads() as opened:
        async with opened_library(tmp_path) as library:
            assert await library.count() == 3
    assert [path for path in opened if any(name.replace("_", "-") in path for name in NAMES)] == []
    publish(store, "new_one")
    with reads() as opened:
        async with opened_library(tmp_path) as library:
            assert await library.count() == 4
    assert any("new-one" in path for path in opened)
    assert [path for path in opened if any(name.replace("_", "-") in path for name in NAMES)] == []


@pytest.mark.spec("STATE-4")
async def test_a_manual_change_of_a_folder_is_detected_when_the_skill_is_used(tmp_path: Path) -> None:
    store = made(tmp_path, *NAMES)
    async with opened_library(tmp_path):
        pass
    file = store.folder("add_one") / "SKILL.md"
    file.write_text(file.read_text().replace("knackbox-state: probation", "knackbox-state: disabled"))
    (store.folder("add_two") / "scripts" / "add_two.py").write_bytes(b"# tampered with\n")
    settled(tmp_path)
    async with opened_library(tmp_path) as library:
        assert [one.state for one in await library.page(1)] == [SkillState.DISABLED]
        assert await library.find("add_two") is None
        assert [one.name for one in (await library.folders.verify()).aside] == ["add_two"]
        assert [one.skill.name for one in await library.search("take_three", 5, 0.0)] == ["take_three"]


@pytest.mark.spec("STATE-4")
async def test_a_manually_added_skill_is_found_by_its_name_immediately(tmp_path: Path) -> None:
    made(tmp_path, "add_one")
    async with opened_library(tmp_path) as library:
        assert await library.find("add_two") is None
        made(tmp_path, "add_two")
        found = await library.find("add_two")
        assert found is not None
        assert found.name == "add_two"
        assert await library.find("../add_two") is None


@pytest.mark.spec("STATE-4")
def test_events_that_a_killed_process_did_not_publish_are_published_later(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        ledger.put({"add_one": (skill("add_one"), "stamp")}, ["add_two"])
        assert ledger.unpublished() == ["add_one", "add_two"]
        ledger.mark_published(["add_two"])
        assert Ledger(records).unpublished() == ["add_one"]


def many(home: Path, count: int) -> None:
    """Write only rows, as if another process had just imported the skills."""
    with opened_records(home) as records:
        skills = {f"add_{n}": replace(skill(f"add_{n}"), description=f"Adds {n}.") for n in range(count)}
        Ledger(records).put({name: (one, "") for name, one in skills.items()})


@pytest.mark.spec("SKILL-14")
async def test_a_search_does_not_wait_for_a_complete_index_and_reports_what_is_missing(tmp_path: Path) -> None:
    made(tmp_path, "take_three")
    async with opened_library(tmp_path) as library:
        assert await names(library, "take three") == ["take_three"]
        many(tmp_path, 30)
        with sqlite3.connect(tmp_path / "skill_index.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")  # another process is filling it
            tools = await SkillSource(library).tools(Turn(query="take_three"))
            assert [tool.spec.name for tool in tools] == ["take_three"]
            assert (
                library.gap
                == getattr(tools, "why", "")
                == "30 skills are not in the index yet, but can be called by name"
            )
            other.execute("ROLLBACK")
        other.close()
        async with asyncio.timeout(30):
            while library.gap:
                await library.search("take_three", 1, 0.0)
                await asyncio.sleep(0)


async def names(library: SkillLibrary, query: str) -> list[str]:
    return [one.skill.name for one in await library.search(query, 3, 0.0)]


@pytest.mark.spec("SKILL-14")
@pytest.mark.parametrize("trouble", ["a file in its place", "its lock is held"])
async def test_a_failing_vector_store_neither_hides_nor_delays_results(tmp_path: Path, trouble: str) -> None:
    made(tmp_path, *NAMES)
    if trouble == "a file in its place":
        (tmp_path / "chroma").write_text("in the way")
    held = os.open(tmp_path / "chroma.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with opened_library(tmp_path) as library:
            assert set(await names(library, "add one")) == set(NAMES)
            assert await library.find("add_one") is not None
            tools = await SkillSource(library).tools(Turn(query="add_one"))
            assert "add_one" in [tool.spec.name for tool in tools]
    finally:
        os.close(held)


def test_neither_listing_nor_searching_imports_the_vector_store(tmp_path: Path) -> None:
    made(tmp_path, *NAMES)
    program = (
        "import asyncio, sys\nfrom engine import Engine\n"
        "async def main():\n"
        "    async with Engine.open(sys.argv[1], environ={}) as engine:\n"
        "        assert any(t.spec.name == 'add_one' for t in (await engine.list_tools()).tools)\n"
        "        assert any(t.spec.name == 'add_one' for t in (await engine.list_tools(query='add_one')).tools)\n"
        "asyncio.run(main())\nassert 'chromadb' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr[-500:]) == (0, "")


@pytest.mark.spec("SKILL-11")
async def test_skills_are_listed_in_pages(tmp_path: Path) -> None:
    made(tmp_path, *NAMES)
    async with opened_library(tmp_path) as library:
        first = await library.page(2)
        assert [one.name for one in first] == ["add_one", "add_two"]
        assert [one.name for one in await library.page(2, first[-1].name)] == ["take_three"]
        assert (await library.count(), await library.count(listed=True)) == (3, 3)


@pytest.mark.spec("SKILL-14")
async def test_with_an_index_that_cannot_be_used_skills_are_found_by_their_names(tmp_path: Path) -> None:
    made(tmp_path, *NAMES)
    (tmp_path / "skill_index.db").mkdir()
    async with opened_library(tmp_path) as library:
        tools = await SkillSource(library).tools(Turn(query="use add_two, please"))
        assert [tool.spec.name for tool in tools] == ["add_two"]
        assert "skill_index.db" in getattr(tools, "why", "")
