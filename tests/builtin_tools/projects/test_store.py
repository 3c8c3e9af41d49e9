"""Projects survive kills and are shared by processes; a user never has two active ones."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from builtin_tools.projects.project import NewTask, ProjectState, with_link, with_note, with_state, with_tasks
from builtin_tools.projects.store import ProjectStore, UnknownProject
from engine.app.databases import backups_of
from engine.app.home import Home
from engine.app.settings import BackupSettings
from engine.stores.clock import SystemClock
from tests.interfaces.cli import REPOSITORY

pytestmark = [pytest.mark.spec("JOB-3")]

VICTIM = """
import sys
from pathlib import Path
from builtin_tools.projects.project import NewTask, with_tasks
from builtin_tools.projects.store import ProjectStore
from engine.stores.clock import SystemClock
store = ProjectStore.open(Path(sys.argv[1]), SystemClock())
store.add("ada", "site")
number = 0
while True:
    number += 1
    new = [NewTask(f"{number}a"), NewTask(f"{number}b", (f"{number}a",))]
    store.change("ada", "site", lambda project, at: with_tasks(project, new, at))
    print(number, flush=True)
"""


def open_store(path: Path) -> ProjectStore:
    return ProjectStore.open(path / "projects.db", SystemClock())


def test_a_project_is_stored_with_everything_in_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add("ada", "site", "A site.", lambda at, now: with_tasks(at, [NewTask("b"), NewTask("a", (1,))], now))
    store.change("ada", "site", lambda at, now: with_link(with_note(at, "n", now), "run", "r1", now))
    store.change("ada", "site", lambda at, now: with_tasks(at, [NewTask("c")], now, before=1))
    kept = store.find("ada", "site")
    store.close()
    again = open_store(tmp_path)
    assert again.find(None, kept.id) == kept
    assert [task.title for task in kept.tasks] == ["c", "b", "a"]
    again.delete("ada", "site")
    with pytest.raises(UnknownProject):
        again.find("ada", "site")
    assert again.projects(None) == []
    again.close()


def test_names_of_several_users_are_ambiguous_without_a_user(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add("ada", "site")
    bobs = store.add("bob", "Site").project
    with pytest.raises(UnknownProject, match=bobs.id):
        store.find(None, "site")
    assert store.find("bob", "site") == bobs
    store.close()


def test_two_threads_never_make_two_projects_active(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    other = open_store(tmp_path)
    for name in ("one", "two"):
        store.add("ada", name)

    def alternate(mine: ProjectStore, name: str) -> None:
        for _ in range(20):
            mine.change("ada", name, lambda at, _now: with_state(at, ProjectState.ACTIVE))

    threads = [threading.Thread(target=alternate, args=each) for each in ((store, "one"), (other, "two"))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(each.state for each in store.projects("ada")) == [ProjectState.ACTIVE, ProjectState.PAUSED]
    store.close()
    other.close()


@pytest.mark.slow
def test_a_kill_leaves_whole_changes(tmp_path: Path) -> None:
    for said in (1, 7, 20):
        path = tmp_path / f"{said}.db"
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        assert victim.stdout is not None
        for _ in range(said):
            victim.stdout.readline()
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(30)
        victim.stdout.close()
        store = ProjectStore.open(path, SystemClock())
        found = store.find("ada", "site")
        assert len(found.tasks) >= 2 * said
        assert len(found.tasks) % 2 == 0
        assert all(task.needs == (task.number - 1,) for task in found.tasks[1::2])
        store.close()


@pytest.mark.spec("STATE-2")
def test_projects_are_in_the_backups(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store = ProjectStore.open(home.projects, SystemClock())
    store.add("ada", "site")
    backups_of(home, BackupSettings(every_hours=1), SystemClock()).take_before_upgrade()
    assert list(home.backups.rglob("projects.db"))
    store.close()
