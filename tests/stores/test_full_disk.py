"""A full disk: reading goes on, changes are refused in one line, and nothing is left half done."""

import shutil
from pathlib import Path

import pytest

from tests.stores.full_disk import on_small_disk

pytestmark = [
    pytest.mark.spec("STATE-2", "SKILL-10"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) mounts the small disk"),
]


def test_on_a_full_disk_commands_read_refuse_changes_in_one_line_and_leave_nothing_half_done(tmp_path: Path) -> None:
    assert on_small_disk("tests.stores.full_disk_victim", tmp_path).endswith("done\n")
