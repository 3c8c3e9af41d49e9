"""A home of an earlier release is backed up, and then upgraded, when an engine opens it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine import Engine
from tests.stores.test_call_journal import old_home


@pytest.mark.spec("STATE-1", "STATE-2")
async def test_a_home_with_separate_logs_opens_after_a_backup_of_it(tmp_path: Path) -> None:
    old_home(tmp_path)
    for _ in range(2):
        async with Engine.open(tmp_path, packs=False, environ={}) as engine:
            assert [row["call_id"] for row in engine.failures.recent()] == ["c9", "c8", "c5", "c2"]
            assert [row["call_id"] for row in await engine.audit()] == ["c9", "c8", "c7"]
    (backup,) = [each for each in (tmp_path / "backups").iterdir() if each.is_dir()]
    with closing(sqlite3.connect(backup / "records.db")) as copy:
        assert copy.execute("SELECT count(*) FROM failures").fetchone() == (5,)
        assert "error_text" not in {row[1] for row in copy.execute("PRAGMA table_info(call_log)")}


async def test_a_home_without_backups_is_upgraded_without_one(tmp_path: Path) -> None:
    old_home(tmp_path)
    environ = {"KNACKBOX_BACKUPS_KEEP": "0"}
    async with Engine.open(tmp_path, packs=False, environ=environ) as engine:
        assert len(engine.failures.recent()) == 4
    assert not (tmp_path / "backups").exists()
