"""Backups: complete copies taken during writes, and restoring them, even if the process is killed."""

import os
import shutil
import signal
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select

from engine.contract.failure import ConfigError
from engine.stores.backups import Backup, Backups, BackupStopped
from engine.stores.records import Records
from tests.stores.processes import other

pytestmark = pytest.mark.spec("STATE-2")

SCHEMA = MetaData()
PAIRS = Table("pairs", SCHEMA, Column("id", Integer, primary_key=True), Column("text", String(2000), nullable=False))


class Clock:
    def __init__(self) -> None:
        self.time = datetime.now(UTC).replace(microsecond=0)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


def backups_in(home: Path, clock: Clock, **options: Any) -> Backups:
    chosen: dict[str, Any] = {"keep": 3, "every": timedelta(hours=24)} | options
    return Backups(home / "backups", (home / "records.db", home / "events.db"), clock, **chosen)


def open_records(home: Path) -> Records:
    records = Records.open(f"sqlite:///{home}/records.db")
    records.create(SCHEMA)
    return records


def put_pair(records: Records) -> None:
    """Insert two rows in one transaction. A copy with an odd number of rows would be inconsistent."""
    with records.begin() as connection:
        connection.execute(insert(PAIRS), [{"text": "x" * 2000}, {"text": "y" * 2000}])
        records.bump("pairs", connection)


def count(home: Path) -> int:
    records = open_records(home)
    with records.read() as connection:
        found = connection.execute(select(func.count()).select_from(PAIRS)).scalar_one()
    records.close()
    return int(found)


def taken(home: Path, clock: Clock, **options: Any) -> Backup:
    clock.time += timedelta(hours=25)
    backup = backups_in(home, clock, **options).take_if_due()
    assert backup is not None
    return backup


def test_a_backup_taken_during_writes_is_complete_and_consistent(tmp_path: Path) -> None:
    records, clock = open_records(tmp_path), Clock()
    for _ in range(500):
        put_pair(records)
    done = threading.Event()

    def write_on() -> None:
        while not done.is_set():
            put_pair(records)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        backup = taken(tmp_path, clock)
    finally:
        done.set()
        writer.join(60)
    records.close()
    with closing(sqlite3.connect(backup.folder / "records.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = copy.execute("SELECT count(*) FROM pairs").fetchone()[0]
        bumps = copy.execute("SELECT value FROM knackbox_generations WHERE name = 'pairs'").fetchone()[0]
    assert rows == 2 * bumps >= 1000


def test_backups_are_taken_when_due_and_the_oldest_removed(tmp_path: Path) -> None:
    open_records(tmp_path).close()
    clock = Clock()
    backups = backups_in(tmp_path, clock)
    assert backups.take_if_due() is None, "a new home is not due yet"
    names = [taken(tmp_path, clock).name for _ in range(5)]
    assert backups.take_if_due() is None
    assert [each.name for each in backups.all()] == names[:1:-1]
    clock.time -= timedelta(days=30)
    assert backups.due(), "after the clock was set back, the newest backup is from the future"
    assert not backups_in(tmp_path, clock, keep=0).due()


def test_only_one_of_several_processes_takes_the_backup(tmp_path: Path) -> None:
    open_records(tmp_path).close()
    clock = Clock()
    clock.time += timedelta(hours=2)
    with other(take_and_tell, str(tmp_path)) as one, other(take_and_tell, str(tmp_path)) as two:
        for each in (one, two):
            assert each.hear() == "ready"
        for each in (one, two):
            each.pipe.send("go")
        assert [one.hear(), two.hear()].count(True) == 1
    assert len(backups_in(tmp_path, clock).all()) == 1


def take_and_tell(parent: Any, home: str) -> None:
    clock = Clock()
    clock.time += timedelta(hours=2)
    parent.send("ready")
    parent.recv()
    parent.send(backups_in(Path(home), clock).take_if_due() is not None)


def test_a_backup_of_a_damaged_database_does_not_replace_a_good_one(tmp_path: Path) -> None:
    records, clock = open_records(tmp_path), Clock()
    for _ in range(200):
        put_pair(records)
    records.close()
    good = taken(tmp_path, clock, keep=1)
    with (tmp_path / "records.db").open("r+b") as stream:
        stream.seek(8192)
        stream.write(b"\xff" * 65536)
    with pytest.raises(ConfigError, match="damaged"):
        taken(tmp_path, clock, keep=1)
    assert [each.name for each in backups_in(tmp_path, clock).all()] == [good.name]


def test_a_backup_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    records, clock = open_records(tmp_path), Clock()
    put_pair(records)
    records.close()
    clock.time += timedelta(hours=25)
    backups = backups_in(tmp_path, clock)
    backups.stop()
    with pytest.raises(BackupStopped):
        backups.take_if_due()
    assert [path.name for path in (tmp_path / "backups").iterdir()] == [".lock"]


def test_restoring_brings_back_rows_keeps_the_replaced_files_and_advances_generations(tmp_path: Path) -> None:
    records, clock = open_records(tmp_path), Clock()
    put_pair(records)
    backup = taken(tmp_path, clock)
    put_pair(records)
    before = records.generation("pairs")
    records.close()
    replaced = backups_in(tmp_path, clock).restore(backup)
    assert count(tmp_path) == 2
    restored = open_records(tmp_path)
    assert restored.generation("pairs") > before
    restored.close()
    with closing(sqlite3.connect(replaced / "records.db")) as old:
        assert old.execute("SELECT count(*) FROM pairs").fetchone() == (4,)


@pytest.mark.parametrize("present", ["empty", "damaged", "missing"])
def test_restoring_works_for_any_state_of_the_current_file(tmp_path: Path, present: str) -> None:
    records, clock = open_records(tmp_path), Clock()
    put_pair(records)
    backup = taken(tmp_path, clock)
    records.close()
    file = tmp_path / "records.db"
    if present == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if present == "empty" else b"a poem, no database\n" * 500)
    backups_in(tmp_path, clock).restore(backup)
    assert count(tmp_path) == 2


def test_a_damaged_backup_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    records, clock = open_records(tmp_path), Clock()
    put_pair(records)
    backup = taken(tmp_path, clock)
    put_pair(records)
    records.close()
    (backup.folder / "records.db").write_bytes(b"a poem, no database\n" * 500)
    with pytest.raises(ConfigError, match="the backup is damaged"):
        backups_in(tmp_path, clock).restore(backup)
    assert count(tmp_path) == 4


def restore_and_die(parent: Any, home: str, name: str, step: int) -> None:
    """Restore, and kill the process right before the step-th change to the file system."""
    left = [step]

    def counted(call: Any) -> Any:
        def before(*arguments: Any, **options: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*arguments, **options)

        return before

    for owner, attribute in ((Path, "unlink"), (Path, "rename"), (Path, "hardlink_to"), (shutil, "copyfile")):
        setattr(owner, attribute, counted(getattr(owner, attribute)))
    clock = Clock()
    backups = backups_in(Path(home), clock)
    backups.restore(next(each for each in backups.all() if each.name == name))
    parent.send(left[0])


def test_a_restore_killed_at_any_step_leaves_a_usable_database_and_can_be_repeated(tmp_path: Path) -> None:
    for step in range(40):
        home = tmp_path / str(step)
        home.mkdir()
        records, clock = open_records(home), Clock()
        put_pair(records)
        backup = taken(home, clock)
        put_pair(records)
        records.close()
        with other(restore_and_die, str(home), backup.name, step) as process:
            process.process.join(60)
            code = process.end()
        assert count(home) in (2, 4), f"killed before step {step}"
        backups_in(home, clock).restore(backup)
        assert count(home) == 2
        if code == 0:
            assert step > 3, "the kills were to come at different steps"
            return
        assert code == -signal.SIGKILL
    pytest.fail("the restore never came to its end")
