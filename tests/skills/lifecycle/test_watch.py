"""A long-lived engine detects skill folders that a person edits, adds or removes, even if the skills are not used."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from acquired_skills.lifecycle import folder_records
from acquired_skills.lifecycle.folder_records import FolderRecords
from acquired_skills.store.skill_store import SkillStore
from engine import Engine
from engine.stores.locks import StoreBusy
from tests.eventually import eventually
from tests.skills.parts import NoSandbox
from tests.skills.store.test_skill_store import publish

pytestmark = pytest.mark.spec("STATE-4")

NAMES = ("add_five", "add_four", "add_one", "add_three", "add_two")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for changes continuously, two skills at a time."""
    for name, value in (("AFTER_S", 0.0), ("EVERY_S", 0.01), ("PAUSE_S", 0.0)):
        monkeypatch.setattr(folder_records, f"_WATCH_{name}", value)
    monkeypatch.setattr(folder_records, "_WATCHED_AT_ONCE", 2)


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    store = SkillStore(tmp_path / "acquired_skills")
    for name in NAMES:
        publish(store, name)
    return store


async def listed(engine: Engine) -> set[str]:
    """Return the skills of a list without a query, which does not read any folder."""
    return {tool.spec.name for tool in (await engine.list_tools()).tools if tool.spec.category == "skill"}


async def becomes(engine: Engine, wanted: Callable[[set[str]], bool]) -> set[str]:
    found = set[str]()

    async def became() -> bool:
        nonlocal found
        found = await listed(engine)
        return wanted(found)

    await eventually(became)
    return found


def events_after(engine: Engine, generation: int) -> list[tuple[str, str]]:
    return [(each.payload["item_id"], each.payload["event"]) for each in engine.events.read(generation)]


def set_state(store: SkillStore, name: str, before: str, after: str) -> None:
    file = store.folder(name) / "SKILL.md"
    text = file.read_text()
    assert f"knackbox-state: {before}" in text
    file.write_text(text.replace(f"knackbox-state: {before}", f"knackbox-state: {after}"))


async def test_manual_edits_damage_additions_and_removals_are_detected_and_published(
    tmp_path: Path, store: SkillStore
) -> None:
    async with Engine.open(tmp_path, sandbox=NoSandbox(), environ={}) as engine:
        assert await listed(engine) == set(NAMES)
        before = engine.events.generation()
        set_state(store, "add_five", "probation", "disabled")
        (store.folder("add_three") / "scripts" / "add_three.py").write_bytes(b"# tampered with\n")
        rmtree(store.folder("add_two"))
        await becomes(engine, lambda found: found == {"add_four", "add_one"})
        set_state(store, "add_five", "disabled", "active")
        other = SkillStore(tmp_path / "elsewhere")
        publish(other, "take_six")
        copytree(other.folder("take_six"), store.folder("take_six"))
        await becomes(engine, lambda found: found == {"add_five", "add_four", "add_one", "take_six"})
        assert [path.name for path in store.aside.iterdir()] == ["add-three-1"]
        expected = [
            ("add_five", "disable"),
            ("add_five", "upsert"),
            ("add_three", "delete"),
            ("add_two", "delete"),
            ("take_six", "upsert"),
        ]
        # Events are published after the rows are written.
        await eventually(lambda: len(events_after(engine, before)) >= len(expected))
        assert sorted(events_after(engine, before)) == expected
        found = await engine.list_tools(query="take_six")
        assert "take_six" in {tool.spec.name for tool in found.tools}


async def test_watching_continues_after_a_failed_check(
    tmp_path: Path, store: SkillStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = [OSError(5, "the disk is gone"), StoreBusy("somebody is at it"), RuntimeError("a bug")]
    reconcile = FolderRecords.reconcile

    async def failing(folders: FolderRecords) -> object:
        if failures:
            raise failures.pop(0)
        return await reconcile(folders)

    async with Engine.open(tmp_path, sandbox=NoSandbox(), environ={}) as engine:
        monkeypatch.setattr(FolderRecords, "reconcile", failing)
        set_state(store, "add_one", "probation", "disabled")
        await becomes(engine, lambda found: found == set(NAMES) - {"add_one"})
        await eventually(lambda: not failures)
        set_state(store, "add_two", "probation", "disabled")
        await becomes(engine, lambda found: found == set(NAMES) - {"add_one", "add_two"})
    assert "the disk is gone" in caplog.text
    assert "a bug" in caplog.text
    assert "somebody is at it" not in caplog.text
