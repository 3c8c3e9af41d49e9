"""The file lock: one writer or many readers, and a limit to waiting."""

from pathlib import Path
from typing import Any

import pytest

from engine.stores.locks import FileLock, StoreBusy
from tests.stores.processes import other


def hold(pipe: Any, path: Path) -> None:
    with FileLock(path).exclusive():
        pipe.send("held")
        pipe.recv()
    pipe.send("free")
    pipe.recv()


@pytest.mark.spec("STATE-1")
def test_another_process_waits_until_the_holder_is_done_or_dead(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    impatient = FileLock(path, patience_s=0.0)
    for ending in ("done", "dead"):
        with other(hold, path) as holder:
            holder.hear()
            with pytest.raises(StoreBusy, match="another process"), impatient.shared():
                pass
            if ending == "done":
                assert holder.ask("go") == "free"
            else:
                holder.kill()
            with impatient.exclusive():
                pass


def test_readers_share_and_a_writer_waits_for_them(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", patience_s=0.0)
    with lock.shared(), lock.shared(), pytest.raises(StoreBusy), lock.exclusive():
        pass
    with lock.exclusive():
        pass
