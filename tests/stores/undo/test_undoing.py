"""What calls changed in a workspace can be undone, and nothing else is touched."""

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engine.contract.failure import UnknownName
from engine.stores.undo.recorder import UndoLimits
from engine.stores.undo.scan import DEEPEST, WorkspaceTooLarge
from engine.stores.undo.undo_plan import UndoStep
from engine.stores.undo.undoing import UndoRefused, UndoTarget
from tests.stores.undo.undo_fixture import UndoFixture

pytestmark = pytest.mark.spec("CODE-9")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[UndoFixture]:
    fixture = UndoFixture(tmp_path)
    yield fixture
    fixture.close()


def steps(here: UndoFixture, target: str, **options: bool) -> dict[str, UndoStep]:
    return {each.path: each.step for each in here.plan(target, **options)}


def test_added_changed_deleted_and_renamed_files_are_restored(here: UndoFixture) -> None:
    here.write("kept.txt", "kept")
    here.write("changed.txt", "before")
    here.write("deleted.txt", "deleted")
    here.write("old name.txt", "moved")
    here.write("folder/inner/file.txt", "inner")
    here.path("empty").mkdir()
    here.path("link").symlink_to("kept.txt")
    here.path("changed.txt").chmod(0o640)
    before = here.snapshot()
    with here.call("run1"):
        here.write("changed.txt", "after")
        here.path("changed.txt").chmod(0o600)
        here.path("deleted.txt").unlink()
        here.path("old name.txt").rename(here.path("new name.txt"))
        shutil.rmtree(here.path("folder"))
        here.path("empty").rmdir()
        here.path("link").unlink()
        here.path("link").symlink_to("/etc/passwd")
        here.write("new/deep/file.txt", "new")
    after = here.snapshot()
    done = here.undo("run1")
    assert here.snapshot() == before
    assert all(each.restores for each in done.paths)
    here.undo(done.undo_id)
    assert here.snapshot() == after


def test_300_deleted_files_come_back(here: UndoFixture) -> None:
    for number in range(300):
        here.write(f"folder{number % 7}/{number}.txt", f"content {number}")
    before = here.snapshot()
    with here.call(call_id="delete all"):
        for path in here.workspace.iterdir():
            shutil.rmtree(path)
    assert here.snapshot() == {}
    assert len([each for each in here.plan("delete all") if each.wanted.kind == "file"]) == 300
    here.undo("delete all")
    assert here.snapshot() == before


def test_what_a_person_changed_meanwhile_is_left_and_reported(here: UndoFixture) -> None:
    for name in ("both.txt", "agent.txt", "person.txt"):
        here.write(name, "before")
    with here.call("run1"):
        for name in ("both.txt", "agent.txt"):
            here.write(name, "agent")
        here.write("made/agent.txt", "agent")
    here.write("both.txt", "person")
    here.write("person.txt", "person")
    here.write("made/person.txt", "person")
    assert steps(here, "run1") == {
        "agent.txt": UndoStep.RESTORE,
        "both.txt": UndoStep.CHANGED_SINCE,
        "made": UndoStep.CHANGED_SINCE,
        "made/agent.txt": UndoStep.RESTORE,
    }
    here.undo("run1")
    assert here.path("agent.txt").read_text() == "before"
    assert here.path("both.txt").read_text() == "person"
    assert here.path("person.txt").read_text() == "person"
    assert [path.name for path in here.path("made").iterdir()] == ["person.txt"]


def test_a_file_goes_back_to_what_a_person_wrote_between_two_calls(here: UndoFixture) -> None:
    here.write("notes.txt", "first")
    here.run("run1", lambda: here.write("notes.txt", "agent 1"))
    here.write("notes.txt", "agent 1 and person")
    here.run("run1", lambda: here.write("notes.txt", "agent 2"))
    done = here.undo("run1")
    assert here.path("notes.txt").read_text() == "agent 1 and person"
    assert "somebody else" in done.paths[0].reason


def test_a_call_can_be_undone_alone_or_with_everything_later(here: UndoFixture) -> None:
    here.write("one.txt", "0")
    with here.call("run1", call_id="a"):
        here.write("one.txt", "1")
        here.write("two.txt", "1")
    with here.call("run1", call_id="b"):
        here.write("one.txt", "2")
        here.write("three.txt", "2")
    (conflict,) = [each for each in here.plan("a") if not each.restores]
    assert (conflict.path, conflict.reason) == ("one.txt", "execute (call b) has changed it since")
    assert steps(here, "b") == {"one.txt": UndoStep.RESTORE, "three.txt": UndoStep.RESTORE}
    here.undo("a", later=True)
    assert {path.name: path.read_text() for path in here.workspace.iterdir()} == {"one.txt": "0"}


def test_changes_of_calls_that_ran_at_the_same_time_are_undone_only_on_request(here: UndoFixture) -> None:
    here.write("one.txt", "0")
    with here.call("run1"), here.call("run2"):
        here.write("one.txt", "1")
    assert steps(here, "run1") == {"one.txt": UndoStep.UNSURE}
    here.undo("run1")
    assert here.path("one.txt").read_text() == "1"
    here.undo("run1", unsure=True)
    assert here.path("one.txt").read_text() == "0"


def test_what_was_changed_before_another_call_began_is_certain(here: UndoFixture) -> None:
    with here.call("run1"):
        here.write("first.txt", "1")
        with here.call("run2"):
            here.write("second.txt", "2")
        here.write("third.txt", "3")
    expected = {"first.txt": UndoStep.RESTORE, "second.txt": UndoStep.UNSURE, "third.txt": UndoStep.RESTORE}
    assert steps(here, "run1") == expected


def test_inner_calls_belong_to_their_outer_call(here: UndoFixture) -> None:
    with here.call(call_id="outer"), here.call(call_id="outer/1"):
        here.write("one.txt", "1")
    assert steps(here, "outer") == {"one.txt": UndoStep.RESTORE}
    assert steps(here, "outer/1") == {"one.txt": UndoStep.UNSURE}


def test_of_a_call_without_programs_only_what_it_wrote_itself_counts(here: UndoFixture) -> None:
    with here.call(call_id="write", programs=False) as touched:
        touched.add("made/here/mine.txt")
        here.write("made/here/mine.txt", "agent")
        here.write("person.txt", "person")
    assert set(steps(here, "write")) == {"made", "made/here", "made/here/mine.txt"}
    here.undo("write")
    assert set(here.snapshot()) == {"person.txt"}


def test_a_file_that_was_changed_and_changed_back_needs_nothing(here: UndoFixture) -> None:
    here.write("one.txt", "0")
    here.run("run1", lambda: here.write("one.txt", "1"))
    here.write("one.txt", "0")
    assert here.plan("run1") == []
    assert here.undo("run1").undo_id == ""


def test_a_second_change_of_equal_size_in_the_same_tick_is_noticed(here: UndoFixture) -> None:
    here.write("one.txt", "0")
    for number in range(50):
        here.run("run1", lambda number=number: here.write("one.txt", str(number % 10)))
    here.run("run2", lambda: here.write("one.txt", "x"))
    here.undo("run2")
    assert here.path("one.txt").read_text() == "9"


def test_files_that_are_too_large_are_reported_and_left(tmp_path: Path) -> None:
    here = UndoFixture(tmp_path, UndoLimits(file_bytes=1000))
    here.write("large", b"x" * 2000)
    here.write("small", b"x" * 999)
    with here.call("run1"):
        here.write("large", b"y" * 2000)
        here.write("small", b"y" * 999)
        here.write("new large", b"z" * 2000)
    plan = {each.path: each for each in here.plan("run1")}
    assert {path: each.step for path, each in plan.items()} == {
        "large": UndoStep.NOT_KEPT,
        "small": UndoStep.RESTORE,
        "new large": UndoStep.NOT_KEPT,
    }
    assert "too large" in plan["large"].reason
    here.undo("run1")
    assert here.path("large").read_bytes() == b"y" * 2000
    assert here.path("small").read_bytes() == b"x" * 999
    assert here.path("new large").exists()  # deleting it could not be undone
    here.close()


def test_the_store_stays_within_its_limit_and_forgets_the_oldest(tmp_path: Path) -> None:
    here = UndoFixture(tmp_path, UndoLimits(store_bytes=1 << 20))
    here.recorder._prune_after = 0.0
    for number in range(60):
        here.recorder._prune_after = 0.0
        size = 60_000 if number % 2 else 180_000  # rows and files
        here.run(f"run{number}", lambda size=size: here.write("data", os.urandom(size)))
    names = [path for path in here.store.rglob("*") if path.is_file() and not path.name.startswith("undo.db")]
    assert sum(path.stat().st_size for path in names) < 2 * (1 << 20)  # 7 MB were written in all
    assert here.recorder.contents.total_bytes() <= 1 << 20
    with pytest.raises(UnknownName, match="run0"):
        here.plan("run0")
    expected = here.path("data").read_bytes()
    here.run("last", lambda: here.write("data", b"overwritten"))
    here.undo("last")
    assert here.path("data").read_bytes() == expected
    here.close()


def test_old_changes_are_deleted_with_their_contents(here: UndoFixture) -> None:
    here.write("secret.txt", "the old password")
    here.run("run1", lambda: here.write("secret.txt", "the new password"))
    here.clock.advance(timedelta(days=31))
    here.run("run2", lambda: here.write("other.txt", "x"))
    here.recorder.prune()
    with pytest.raises(UnknownName):
        here.plan("run1")
    here.close()
    stored = b"".join(path.read_bytes() for path in here.store.rglob("*") if path.is_file())
    assert b"the old password" not in stored
    assert b"the new password" in stored  # the present file


def test_only_the_owner_can_read_the_store(here: UndoFixture) -> None:
    before = os.umask(0)
    try:
        here.run("run1", lambda: here.write("secret.txt", "secret"), lambda: here.write("large", b"s" * (2 << 20)))
        here.recorder.prune_if_due()
    finally:
        os.umask(before)
    paths = [here.store, *here.store.rglob("*")]
    assert len(paths) > 5
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_hard_links_special_files_and_links_out_of_the_workspace_are_safe(here: UndoFixture, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    here.write("one.txt", "one")
    os.link(here.path("one.txt"), tmp_path / "another name")
    with here.call("run1"):
        here.write("one.txt", "changed")
        os.mkfifo(here.path("pipe"))
        here.path("out").symlink_to(outside)
        here.path("folder out").symlink_to(tmp_path)
    assert steps(here, "run1")["pipe"] is UndoStep.NOT_KEPT
    done = {each.path: each for each in here.undo("run1").paths}
    assert done["one.txt"].step is UndoStep.FAILED
    assert "hard links" in done["one.txt"].reason
    assert set(here.snapshot()) == {"one.txt", "pipe"}
    assert outside.read_text() == "outside"
    assert not here.recorder.contents.has(hashlib.sha256(b"outside").hexdigest().encode())
    assert here.recorder.contents.has(hashlib.sha256(b"changed").hexdigest().encode())


def test_a_folder_that_became_a_link_is_not_followed(here: UndoFixture, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file.txt").write_text("not of the workspace")
    here.write("folder/file.txt", "before")
    here.run("run1", lambda: here.write("folder/file.txt", "after"))
    shutil.rmtree(here.path("folder"))
    here.path("folder").symlink_to(target)
    here.undo("run1")
    assert (target / "file.txt").read_text() == "not of the workspace"


def test_a_file_becomes_a_folder_and_back(here: UndoFixture) -> None:
    here.write("x", "file")
    here.write("y/inner.txt", "inner")
    before = here.snapshot()
    with here.call("run1"):
        here.path("x").unlink()
        here.write("x/deep/file.txt", "new")
        shutil.rmtree(here.path("y"))
        here.write("y", "a file now")
    after = here.snapshot()
    done = here.undo("run1")
    assert here.snapshot() == before
    here.undo(done.undo_id)
    assert here.snapshot() == after


def test_modes_of_files_and_read_only_folders_are_restored(here: UndoFixture) -> None:
    here.write("script.sh", "#!/bin/sh")
    here.write("folder/file.txt", "before")
    here.path("script.sh").chmod(0o755)
    before = here.snapshot()
    with here.call("run1"):
        here.path("script.sh").chmod(0o600)
        here.path("folder/file.txt").unlink()
        here.path("folder").chmod(0o500)
    inode = here.path("script.sh").stat().st_ino
    here.undo("run1")
    assert here.snapshot() == before
    assert here.path("script.sh").stat().st_ino == inode  # only the mode was changed


def test_names_that_are_not_text_are_restored(here: UndoFixture) -> None:
    name = os.fsdecode(b"\xff\xfe\n name")
    here.write(name, "before")
    here.run("run1", lambda: here.path(name).unlink())
    here.undo("run1")
    assert here.path(name).read_text() == "before"


def test_too_many_files_are_refused_and_too_deep_folders_are_not_entered(tmp_path: Path) -> None:
    here = UndoFixture(tmp_path, UndoLimits(files=5 + DEEPEST))
    deep = here.workspace
    for _ in range(DEEPEST + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with here.call("run1"):
        pass
    for number in range(20):
        here.write(f"{number}", "x")
    with pytest.raises(WorkspaceTooLarge), here.call("run2"):
        pass
    here.close()


def test_an_undo_waits_for_no_call_but_is_refused_while_one_runs(here: UndoFixture) -> None:
    here.run("run1", lambda: here.write("one.txt", "1"))
    with here.call("run2"), pytest.raises(UndoRefused, match="is running"):
        here.plan("run1")
    assert steps(here, "run1") == {"one.txt": UndoStep.RESTORE}


def test_what_changed_after_the_plan_was_shown_is_left(here: UndoFixture) -> None:
    here.run("run1", lambda: here.write("one.txt", "1"), lambda: here.write("two.txt", "1"))
    shown = here.undoing.plan(UndoTarget("run1"))
    here.write("one.txt", "person")
    here.undoing.undo(UndoTarget("run1"), shown)
    assert {path.name: path.read_text() for path in here.workspace.iterdir()} == {"one.txt": "person"}


def test_a_missing_or_damaged_content_is_reported(here: UndoFixture) -> None:
    for name, content in {"one.txt": "before", "lost.txt": "lost", "large.txt": "l" * 100_000}.items():
        here.write(name, content)
    with here.call("run1"):
        for name in ("one.txt", "lost.txt", "large.txt"):
            here.write(name, "after")
    large = hashlib.sha256(b"l" * 100_000).hexdigest()
    (here.store / large[:2] / large[2:]).write_bytes(b"L" * 100_000)
    database = sqlite3.connect(here.store / "contents.db")
    with database:
        database.execute("UPDATE contents SET data = ? WHERE data = ?", (b"befoRe", b"before"))
        database.execute("DELETE FROM contents WHERE data = ?", (b"lost",))
    database.close()
    reasons = {each.path: each.reason for each in here.undo("run1").paths if each.step is UndoStep.FAILED}
    assert {path: reason.split()[-1] for path, reason in reasons.items()} == {
        "large.txt": "damaged",
        "lost.txt": "missing",
        "one.txt": "damaged",
    }
    assert all(here.path(name).read_text() == "after" for name in ("one.txt", "lost.txt", "large.txt"))


def test_the_ids_of_calls_may_be_used_again(here: UndoFixture) -> None:
    for number in (1, 2):
        with here.call(call_id="same"):
            here.write(f"{number}.txt", "x")
    assert set(steps(here, "same")) == {"2.txt"}


def test_a_call_that_its_run_made_again_after_an_interruption_is_undone_as_a_whole(here: UndoFixture) -> None:
    for number in (1, 2):
        with here.call("run1", call_id="same"):
            here.write(f"{number}.txt", "x")
    assert set(steps(here, "same")) == {"1.txt", "2.txt"}


def test_changes_of_a_call_whose_second_scan_failed_are_found_by_the_next_one(here: UndoFixture) -> None:
    away = here.workspace.with_name("away")
    with pytest.raises(FileNotFoundError), here.call("run1"):  # noqa: PT012 -- the end of the call raises
        here.write("one.txt", "1")
        here.workspace.rename(away)
    away.rename(here.workspace)
    here.run("run2", lambda: here.write("two.txt", "2"))
    assert steps(here, "run1") == {"one.txt": UndoStep.RESTORE}
    assert steps(here, "run2") == {"two.txt": UndoStep.RESTORE}


def test_an_unknown_id_is_refused(here: UndoFixture) -> None:
    with pytest.raises(UnknownName, match="knackbox undo --list"):
        here.plan("nothing")


def test_the_list_shows_runs_calls_and_undos_newest_first(here: UndoFixture) -> None:
    here.run("run1", lambda: here.write("one.txt", "1"), lambda: here.write("two.txt", "1"))
    here.run("run1", lambda: here.write("one.txt", "2"))
    with here.call(call_id="alone"):
        here.write("three.txt", "3")
    done = here.undo("run1")
    listed = here.undoing.undoable(10)
    assert [(each.id, each.kind, each.paths) for each in listed] == [
        (done.undo_id, "undo", 2),
        ("alone", "call", 1),
        ("run1", "run", 2),
    ]


def test_threads_that_make_calls_at_the_same_time_lose_nothing(here: UndoFixture) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            here.run("run1", lambda turn=turn: here.write(f"{number}/{turn}.txt", f"{number} {turn}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(here.snapshot()) == 4 * 6
    here.undo("run1")
    assert here.snapshot() == {}
