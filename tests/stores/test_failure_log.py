"""The failure log: newest first, shared, bounded."""

from pathlib import Path

import pytest

from engine.contract.failure import FailureClass
from engine.stores import failure_log
from engine.stores.failure_log import MAX_ERROR_CHARACTERS, FailureLog
from engine.stores.records import Records


def open_log(folder: Path) -> FailureLog:
    return FailureLog(Records.open(f"sqlite:///{folder / 'records.db'}"))


def fill(log: FailureLog, count: int, kind: FailureClass = FailureClass.UNKNOWN) -> None:
    for number in range(count):
        log.record("fetch", kind, "timeout", f"error {number}", ts="2025-01-01T00:00:00+00:00", call_id=f"c{number}")


@pytest.mark.spec("STATE-1")
def test_the_newest_come_first_and_another_opening_sees_them(tmp_path: Path) -> None:
    fill(open_log(tmp_path), 3)
    (first, second) = open_log(tmp_path).recent(2)
    assert first == {
        "id": 3,
        "ts": "2025-01-01T00:00:00+00:00",
        "tool": "fetch",
        "call_id": "c2",
        "failure_class": "UNKNOWN",
        "reason": "timeout",
        "error_text": "error 2",
    }
    assert second["error_text"] == "error 1"


def test_one_class_can_be_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    fill(log, 1, FailureClass.FATAL)
    assert [row["failure_class"] for row in log.recent(10, FailureClass.FATAL)] == ["FATAL"]
    assert len(log.recent()) == 3


def test_long_texts_are_cut_and_old_rows_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_log, "KEPT", 20)
    monkeypatch.setattr(failure_log, "SWEEP_EVERY", 10)
    log = open_log(tmp_path)
    fill(log, 59)
    log.record("t", FailureClass.FATAL, "r", "x" * 10_000, ts="", call_id="")
    rows = log.recent(100)
    assert [row["id"] for row in rows] == list(range(60, 40, -1))
    assert len(rows[0]["error_text"]) == MAX_ERROR_CHARACTERS
