"""A full disk: reading works, changes are refused in one line, and nothing is left inconsistent."""

import shutil
from pathlib import Path

import pytest

from tests.stores.full_disk import on_small_disk

pytestmark = [
    pytest.mark.spec("STATE-2", "SKILL-10"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) mounts the small disk"),
]


def test_on_a_full_disk_commands_read_and_refuse_changes_and_nothing_is_left_inconsistent(tmp_path: Path) -> None:
    assert on_small_disk("tests.stores.full_disk_victim", tmp_path).endswith("done\n")
