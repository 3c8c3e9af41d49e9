"""Which folders of control groups a supervisor takes for left-over ones. Plain folders stand for groups."""

import os
from pathlib import Path

import pytest

from sandbox.linux.cgroups import Layout, owner, sweep

pytestmark = pytest.mark.spec("BOX-4")


def test_only_folders_of_ended_supervisors_of_our_pid_namespace_are_removed(tmp_path: Path) -> None:
    namespace, pid, start = map(int, owner(os.getpid()).split("-"))
    kept = [f"{namespace}-{pid}-{start}", f"{namespace + 1}-{pid}-{start + 1}"]
    ended = [f"{namespace}-{pid}-{start + 1}", f"{namespace}-{1 << 30}-1"]
    for name in (*kept, *ended):
        (tmp_path / "knackbox" / name / "b1").mkdir(parents=True)
    assert sweep(Layout(1, (str(tmp_path),))) == 0
    assert sorted(each.name for each in (tmp_path / "knackbox").iterdir()) == sorted(kept)
