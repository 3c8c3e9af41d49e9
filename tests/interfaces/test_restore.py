"""`knackbox restore` restores a lost database from a backup."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from engine.app.databases import backups_of
from engine.app.home import Home
from engine.app.settings import BackupSettings
from engine.stores.clock import SystemClock
from engine.stores.engine_lock import EngineLock
from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("STATE-2", "FACE-1")


def age(home: Path, by: timedelta) -> None:
    """Make a home look older, so that its first backup is due."""
    for lock in home.glob("*.db.lock"):
        os.utime(lock, (time.time() - by.total_seconds(),) * 2)


def test_a_lost_database_is_reported_and_can_be_restored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = ("--home", str(tmp_path))
    call = ("call", "scratchpad", "--args", '{"action": "set", "key": "k", "value": "kept"}')
    assert here(capfd, *at, *call).code == 0
    listed = here(capfd, *at, "restore")
    assert (listed.code, "no backups yet" in listed.err) == (0, True)
    age(tmp_path, timedelta(hours=2))
    assert here(capfd, *at, "failures").code == 0  # any command that opens an engine
    (backup,) = here(capfd, *at, "restore", "--json").last["backups"]
    assert backup["records.db"] > 0

    (tmp_path / "records.db").write_bytes(b"")
    refused = here(capfd, *at, "call", "scratchpad", "--args", '{"action": "get", "key": "k"}')
    assert refused.code == 3
    assert "is empty (0 bytes). Lost: " in refused.err
    assert "Not lost: skills" in refused.err
    assert refused.err.count("\n") == 1
    assert (tmp_path / "records.db").stat().st_size == 0
    doctor = here(capfd, *at, "doctor", "--json")
    assert "it is empty (0 bytes)" in doctor.out

    restored = here(capfd, *at, "restore", "latest", "--only", "records.db")
    assert restored.code == 0, restored.err
    again = here(capfd, *at, "call", "scratchpad", "--args", '{"action": "get", "key": "k"}')
    assert "kept" in again.out


def test_restore_refuses_an_open_engine_and_unknown_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = ("--home", str(tmp_path))
    assert here(capfd, *at, "failures").code == 0
    age(tmp_path, timedelta(hours=2))
    assert backups_of(Home(tmp_path), BackupSettings(), SystemClock()).take_if_due() is not None
    engine = EngineLock(tmp_path / "engines")
    refused = here(capfd, *at, "restore", "latest")
    engine.close()
    assert (refused.code, "an engine is open on this home" in refused.err) == (3, True)
    assert here(capfd, *at, "restore", "20200101T000000Z").code == 2
    wrong = here(capfd, *at, "restore", "latest", "--only", "chroma.db")
    assert (wrong.code, "does not contain chroma.db" in wrong.err) == (2, True)
    assert here(capfd, *at, "restore", "latest").code == 0
