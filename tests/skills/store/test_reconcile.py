import logging
import re
from pathlib import Path

import pytest

from acquired_skills.model.skill import SkillState
from acquired_skills.store import reconcile as reconcile_module
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import reconcile, reconcile_changes
from acquired_skills.store.skill_store import SkillStore
from engine.registry.updates import RegistryUpdates
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from tests.skills.parts import opened_records
from tests.skills.store.test_skill_store import publish

pytestmark = pytest.mark.spec("SKILL-10")


def listed(ledger: Ledger) -> dict[str, int]:
    return {row.name: row.skill.version for row in ledger.rows() if row.skill is not None}


def test_the_records_are_rebuilt_from_the_folders(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    for name in ("add_one", "add_two"):
        publish(store, name)
    for _ in range(2):  # the second time with a new, empty database
        with opened_records(tmp_path) as records:
            ledger = Ledger(records)
            report = reconcile(store, ledger)
            assert report.read == ("add_one", "add_two")
            assert listed(ledger) == {"add_one": 1, "add_two": 1}
        for path in tmp_path.glob("records.db*"):
            path.unlink()


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    publish(store)
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        reconcile(store, ledger)
        before = ledger.generation()
        for thorough in (False, True):
            report = reconcile(store, ledger, thorough=thorough)
            assert (report.known, report.read, report.removed) == (1, (), ())
        assert ledger.generation() == before


def test_the_records_agree_again_after_a_crash_between_folder_and_record(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    publish(store, "add_one")
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        reconcile(store, ledger)
        publish(store, "add_one", b"second\n")  # a version without a row
        publish(store, "add_two")
        assert reconcile(store, ledger).read == ("add_one", "add_two")
        assert listed(ledger) == {"add_one": 2, "add_two": 1}
        with store.lock():
            store.delete("add_one")
            store.set_state("add_two", SkillState.DISABLED)
        assert reconcile(store, ledger).removed == ("add_one",)
        assert [row.skill.state for row in ledger.rows() if row.skill] == [SkillState.DISABLED]


def test_a_damaged_folder_is_set_aside_with_a_one_line_reason_and_the_others_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SkillStore(tmp_path / "skills")
    publish(store, "add_one")
    publish(store, "add_two")
    (store.folder("add_one") / "scripts" / "add_one.py").write_text("import os; os.abort()")
    (store.root / "half-made").mkdir()
    with opened_records(tmp_path) as records, caplog.at_level(logging.WARNING):
        ledger = Ledger(records)
        report = reconcile(store, ledger)
        assert [one.name for one in report.aside] == ["add_one", "half_made"]
        assert listed(ledger) == {"add_two": 1}
    assert (report.aside[0].kept / "scripts" / "add_one.py").read_text() == "import os; os.abort()"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "add_one.py was changed after it was admitted" in lines[0]
    assert all("\n" not in line for line in lines)


def test_a_foreign_skill_is_left_unchanged(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    foreign = store.root / "pdf-forms"
    foreign.mkdir()
    (foreign / "SKILL.md").write_text("---\nname: pdf-forms\ndescription: Fill forms.\n---\n")
    (store.root / "Not A Skill").mkdir()
    with opened_records(tmp_path) as records:
        report = reconcile(store, Ledger(records))
    assert len(report.foreign) == 1
    assert (foreign / "SKILL.md").exists()
    assert (store.root / "Not A Skill").exists()
    assert report.aside == ()


def test_a_folder_with_values_too_large_for_the_records_does_not_affect_others(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    for name in ("add_one", "add_two"):
        publish(store, name)
    file = store.folder("add_one") / "SKILL.md"
    text = file.read_text()
    changed = re.sub(r"(knackbox-version: )\S+", rf"\g<1>'{10**30}'", text)
    assert changed != text
    file.write_text(changed)
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        report = reconcile(store, ledger)
        assert [one.name for one in report.aside] == ["add_one"]
        assert listed(ledger) == {"add_two": 1}


@pytest.mark.spec("STATE-4")
def test_many_new_folders_are_recorded_in_batches_between_which_others_get_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SkillStore(tmp_path / "acquired_skills")
    names = [f"add_{number}" for number in range(5)]
    for name in names:
        publish(store, name)
    batches: list[int] = []
    added: list[str] = []

    def in_between(_: float) -> None:
        batches.append(len(Ledger(records).names()))
        if not added:
            added.append(publish(store, "take_one").name)  # takes the lock of the store

    monkeypatch.setattr(reconcile_module, "_AT_ONCE", 2)
    monkeypatch.setattr(reconcile_module.time, "sleep", in_between)
    with opened_records(tmp_path) as records:
        ledger, events = Ledger(records), EventLog(records, SystemClock())
        updates = RegistryUpdates(events, records, records, SystemClock())
        assert reconcile(store, ledger, updates).read == tuple(names)
        assert batches == [2, 4]
        assert [each.payload["item_id"] for each in events.read()] == names
        assert ledger.unpublished() == []
        assert reconcile_changes(store, ledger, updates).read == ("take_one",)
        assert reconcile(store, ledger, updates).known == 6
        assert events.generation() == 6


@pytest.mark.spec("STATE-4")
def test_a_reconciliation_that_was_killed_between_two_batches_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SkillStore(tmp_path / "acquired_skills")
    for number in range(5):
        publish(store, f"add_{number}")

    def killed(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reconcile_module, "_AT_ONCE", 2)
    with opened_records(tmp_path) as records:
        ledger, events = Ledger(records), EventLog(records, SystemClock())
        updates = RegistryUpdates(events, records, records, SystemClock())
        ledger.announce("add_4")
        with monkeypatch.context() as patch:
            patch.setattr(reconcile_module.time, "sleep", killed)
            with pytest.raises(KeyboardInterrupt):
                reconcile_changes(store, ledger, updates)
        assert ledger.unfinished() == ["add_4"]
        report = reconcile_changes(store, ledger, updates)
        assert (report.known, report.read) == (2, ("add_2", "add_3", "add_4"))
        assert ledger.unfinished() == []
        assert [each.payload["item_id"] for each in events.read()] == [f"add_{number}" for number in range(5)]
