"""The records: shared by processes, transactional, and checked for damage."""

import hashlib
import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select

from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy
from engine.stores.records import Records
from engine.stores.sqlite_file import Contents
from tests.stores.processes import other

SCHEMA = MetaData()
NOTES = Table("notes", SCHEMA, Column("id", Integer, primary_key=True), Column("text", String(50)))


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'records.db'}"


def count(records: Records) -> int:
    with records.read() as connection:
        return int(connection.execute(select(func.count()).select_from(NOTES)).scalar_one())


def serve_generations(pipe: Any, where: str) -> None:
    records = Records.open(where)
    pipe.send("open")
    while (question := pipe.recv()) is not None:
        verb, name = question
        pipe.send(records.bump(name) if verb == "bump" else records.generation(name))


def write_many(pipe: Any, where: str, times: int) -> None:
    pipe.recv()
    records = Records.open(where)
    records.create(SCHEMA)
    for number in range(times):
        with records.begin() as connection:
            connection.execute(insert(NOTES).values(text=str(number)))
            records.bump("tools", connection)
    pipe.send("done")


def write_without_committing(pipe: Any, where: str) -> None:
    records = Records.open(where)
    with records.begin() as connection:
        connection.execute(insert(NOTES).values(text="half"))
        pipe.send("written")
        pipe.recv()


@pytest.mark.spec("STATE-1")
def test_a_bump_in_one_process_is_seen_by_the_next_read_in_another(tmp_path: Path) -> None:
    records = Records.open(url(tmp_path))
    with other(serve_generations, url(tmp_path)) as peer:
        peer.hear()
        assert peer.ask(("generation", "tools")) == 0
        assert records.bump("tools") == 1
        assert peer.ask(("generation", "tools")) == 1
        assert peer.ask(("bump", "tools")) == 2
        assert records.generation("tools") == 2
        assert records.generation("other") == 0
    records.close()


@pytest.mark.spec("STATE-1")
def test_processes_that_open_and_write_at_once_lose_nothing(tmp_path: Path) -> None:
    where, times = url(tmp_path), 40
    with ExitStack() as stack:
        peers = [stack.enter_context(other(write_many, where, times)) for _ in range(3)]
        for peer in peers:
            peer.pipe.send("go")
        assert [peer.hear() for peer in peers] == ["done"] * 3
    records = Records.open(where)
    assert count(records) == 3 * times
    assert records.generation("tools") == 3 * times
    records.close()


@pytest.mark.spec("STATE-1")
def test_a_writer_killed_in_a_transaction_leaves_no_row_and_no_lock(tmp_path: Path) -> None:
    records = Records.open(url(tmp_path))
    records.create(SCHEMA)
    with other(write_without_committing, url(tmp_path)) as peer:
        assert peer.hear() == "written"
        peer.kill()
    assert count(records) == 0
    with records.begin() as connection:
        connection.execute(insert(NOTES).values(text="whole"))
    assert count(records) == 1
    records.close()


def test_a_failed_transaction_is_rolled_back_with_its_bump(tmp_path: Path) -> None:
    records = Records.open(url(tmp_path))
    records.create(SCHEMA)

    def fail_half_way() -> None:
        with records.begin() as connection:
            connection.execute(insert(NOTES).values(text="x"))
            records.bump("tools", connection)
            raise LookupError

    with pytest.raises(LookupError):
        fail_half_way()
    assert count(records) == 0
    assert records.generation("tools") == 0
    records.close()


def test_a_transaction_inside_a_transaction_is_refused_instead_of_waiting_for_itself(tmp_path: Path) -> None:
    records = Records.open(url(tmp_path))
    with records.begin(), pytest.raises(RuntimeError, match="use its connection"):
        records.bump("tools")
    assert records.bump("tools") == 1
    records.close()


def test_records_survive_closing_and_opening(tmp_path: Path) -> None:
    first = Records.open(url(tmp_path))
    first.bump("tools")
    first.close()
    first.close()
    second = Records.open(url(tmp_path))
    assert second.generation("tools") == 1
    assert second.dialect == "sqlite"
    second.close()


def damage(file: Path, how: str) -> None:
    if how == "garbage":
        file.write_bytes(b"this is not a database, it is a poem\n" * 200)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    else:
        with file.open("r+b") as stream:
            stream.seek(4096)
            stream.write(b"\xff" * 8192)


@pytest.mark.parametrize("how", ["garbage", "cut", "overwritten"])
def test_a_damaged_file_is_reported_in_one_line_and_not_changed(tmp_path: Path, how: str) -> None:
    records = Records.open(url(tmp_path))
    records.create(SCHEMA)
    with records.begin() as connection:
        connection.execute(insert(NOTES), [{"text": "x" * 50} for _ in range(500)])
    records.close()
    file = tmp_path / "records.db"
    damage(file, how)
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(ConfigError) as caught:
        Records.open(url(tmp_path))
    message = str(caught.value)
    assert "\n" not in message
    assert str(file) in message
    assert "knackbox skills reindex" in message
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("how", ["empty", "missing beside its log"])
def test_a_lost_file_is_never_replaced_by_a_new_one(tmp_path: Path, how: str) -> None:
    Records.open(url(tmp_path)).close()
    file = tmp_path / "records.db"
    if how == "empty":
        file.write_bytes(b"")
    else:
        file.rename(tmp_path / "records.db-wal")
    contents = Contents(held="the log of calls", kept="skills")
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            Records.open(url(tmp_path), contents=contents)
        message = str(caught.value)
        assert "\n" not in message
        assert "Lost: the log of calls. Not lost: skills." in message
        assert "knackbox restore" in message
    assert file.exists() == (how == "empty")
    assert not file.exists() or file.stat().st_size == 0


def test_a_process_killed_while_it_creates_the_file_leaves_none(tmp_path: Path) -> None:
    (tmp_path / ".tmp-records.db").write_bytes(b"")  # as such a process leaves it
    Records.open(url(tmp_path)).close()
    assert not (tmp_path / ".tmp-records.db").exists()
    assert (tmp_path / "records.db").stat().st_mode & 0o777 == 0o600


def test_damage_found_after_opening_is_reported_as_well(tmp_path: Path) -> None:
    records = Records.open(url(tmp_path))
    records.create(SCHEMA)
    with records.begin() as connection:
        connection.execute(insert(NOTES), [{"text": "x" * 50} for _ in range(5000)])
    with sqlite3.connect(tmp_path / "records.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    file = tmp_path / "records.db"
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * (file.stat().st_size - 8192))
    with pytest.raises(ConfigError, match="damaged"), records.begin() as connection:
        connection.execute(select(func.sum(func.length(NOTES.c.text)))).all()
    records.close()


@pytest.mark.parametrize("bad", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "sqlite:////no/such/folder/r.db"])
def test_an_unusable_url_is_reported_in_one_line(bad: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Records.open(bad)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["nosuchdatabase", "mssql+pymssql"])
def test_a_missing_driver_is_reported_in_one_line_without_the_password(kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Records.open(f"{kind}://me:s3cret@localhost/x")
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.spec("STATE-1")
def test_a_database_that_another_process_holds_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.stores.sqlite_file.BUSY_TIMEOUT_S", 0.05)
    records = Records.open(url(tmp_path))
    records.create(SCHEMA)
    with other(write_without_committing, url(tmp_path)) as peer:
        peer.hear()
        with pytest.raises(StoreBusy, match="another process"):
            records.bump("tools")
    assert records.bump("tools") == 1
    records.close()


@pytest.mark.spec("HOME-1")
def test_other_users_cannot_read_a_database_in_a_public_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        records = Records.open(url(tmp_path))
        records.create(SCHEMA)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
        records.close()
    assert set(modes) == {"records.db", "records.db-wal", "records.db-shm", "records.db.lock"}
    assert set(modes.values()) == {0o600}


@pytest.mark.spec("STATE-5")
def test_deleted_rows_leave_no_byte_in_a_database_with_secure_delete(tmp_path: Path) -> None:
    table = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("text", String))
    records = Records.open(f"sqlite:///{tmp_path}/records.db", secure_delete=True)
    records.create(table.metadata)
    with records.begin() as connection:
        connection.execute(table.insert(), [{"id": n, "text": f"secret number {n} " * 50} for n in range(200)])
    with records.begin() as connection:
        connection.execute(table.delete().where(table.c.id != 7))
    assert records.truncate_log()
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    records.close()
    assert b"secret number 7 " in left
    assert not [n for n in range(200) if n != 7 and f"secret number {n} ".encode() in left]
