"""Engines that share one Tor process find each other by the files that they hold locked."""

import os
from pathlib import Path

import pytest

from builtin_tools.web.route.tor_users import TorUser

pytestmark = pytest.mark.spec("WEB-1")


def test_one_engine_owns_tor_and_the_next_one_after_it_has_ended(tmp_path: Path) -> None:
    first, second = TorUser(tmp_path), TorUser(tmp_path)
    assert first.try_to_own()
    assert first.owns
    assert not second.try_to_own()
    assert second.other_process() == os.getpid()
    first.close()
    assert second.other_process() is None
    assert second.try_to_own()
    second.close()


def test_the_file_of_an_engine_that_was_killed_is_removed(tmp_path: Path) -> None:
    user = TorUser(tmp_path)
    left = tmp_path / "users" / f"1-{'0' * 16}"  # locked by nobody
    left.touch()
    assert user.other_process() is None
    assert not left.exists()
    user.close()
