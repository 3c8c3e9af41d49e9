"""Lock files of engines: dead engines are detected and their files removed."""

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.stores.engine_lock import EngineLock
from tests.stores.processes import other

pytestmark = pytest.mark.spec("CALL-9")


def hold(parent: Any, folder: str) -> None:
    _lock = EngineLock(Path(folder))
    parent.send("held")
    threading.Event().wait()


def test_the_file_of_a_killed_engine_is_removed_when_the_next_one_opens(tmp_path: Path) -> None:
    with other(hold, str(tmp_path)) as holder:
        assert holder.hear() == "held"
        (held,) = (path.name for path in tmp_path.iterdir())
        watching = EngineLock(tmp_path)
        assert watching.is_running(held)
        assert watching.running_others() == [held]
        holder.kill()
    assert (tmp_path / held).exists()
    following = EngineLock(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([watching.id, following.id])
    assert not following.is_running(held)
    assert watching.is_running(following.id)
    following.close()
    watching.close()
    assert list(tmp_path.iterdir()) == []


def test_engines_that_open_and_close_concurrently_do_not_consider_each_other_dead(tmp_path: Path) -> None:
    mistaken: list[str] = []

    def open_and_close() -> None:
        for _ in range(100):
            lock = EngineLock(tmp_path)
            if not (tmp_path / lock.id).exists():
                mistaken.append(lock.id)
            lock.close()

    threads = [threading.Thread(target=open_and_close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert mistaken == []
    assert list(tmp_path.iterdir()) == []
