"""One journal of calls: its views, its limits, and the upgrade of an earlier release's tables."""

from pathlib import Path
from typing import Any

import pytest

from engine.contract.failure import Failure, FailureClass
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.turn import Turn
from engine.stores import call_journal
from engine.stores.call_journal import CallJournal
from engine.stores.call_rows import CANCELLED, MAX_ERROR_CHARACTERS, row_of
from engine.stores.records import Records
from tests.skills.parts import opened_records

TS = "2025-01-01T00:00:00+00:00"

# The tables as the last release with separate logs made them, and one that lacks `data` as well.
OLD_CALLS = """
    CREATE TABLE call_log (
        id INTEGER NOT NULL PRIMARY KEY, call_id VARCHAR(200) NOT NULL, ts VARCHAR(40) NOT NULL,
        tool VARCHAR(200) NOT NULL, user VARCHAR(200) NOT NULL, agent VARCHAR(200) NOT NULL,
        risk VARCHAR(10) NOT NULL, arguments TEXT NOT NULL, "end" VARCHAR(20) NOT NULL, success BOOLEAN,
        attempts INTEGER NOT NULL, duration_ms FLOAT, failure_class VARCHAR(20), reason VARCHAR(200),
        side_effects TEXT NOT NULL, {data} UNIQUE (call_id, ts))
"""
OLD_FAILURES = """
    CREATE TABLE failures (
        id INTEGER NOT NULL PRIMARY KEY, ts VARCHAR(40) NOT NULL, tool VARCHAR(200) NOT NULL,
        call_id VARCHAR(200) NOT NULL, failure_class VARCHAR(20) NOT NULL, reason VARCHAR(200) NOT NULL,
        error_text TEXT NOT NULL)
"""


def failed(number: int, kind: FailureClass = FailureClass.UNKNOWN, error: str = "") -> dict[str, Any]:
    """Return the row of a failed call."""
    audit = Audit("fetch", f"c{number}", TS, 2.0, 1, "error")
    result = ToolResult(False, error=error or f"error {number}", failure=Failure(kind, "timeout"), audit=audit)
    return row_of(ToolCall("fetch", {}), result, Turn())


def succeeded(number: int) -> dict[str, Any]:
    """Return the row of a successful call."""
    return row_of(ToolCall("fetch", {}), ToolResult(True, audit=Audit("fetch", f"s{number}", TS, 4.0, 1, "ok")), Turn())


@pytest.mark.spec("STATE-1")
def test_failures_are_persistent_and_read_newest_first(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        CallJournal(records).write([failed(0), succeeded(0), failed(1), failed(2)])
    with opened_records(tmp_path) as records:
        (first, second) = CallJournal(records).failures.recent(2)
    assert first == {
        "id": 4,
        "ts": TS,
        "tool": "fetch",
        "call_id": "c2",
        "failure_class": "UNKNOWN",
        "reason": "timeout",
        "error_text": "error 2",
    }
    assert second["error_text"] == "error 1"


def test_failures_of_one_class(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        journal = CallJournal(records)
        journal.write([failed(0), failed(1), failed(2, FailureClass.FATAL)])
        assert [row["call_id"] for row in journal.failures.recent(10, FailureClass.FATAL)] == ["c2"]
        assert len(journal.failures.recent()) == 3


def test_a_cancelled_call_is_in_the_audit_but_not_among_the_failures(tmp_path: Path) -> None:
    end, reason = CANCELLED
    failure = Failure(FailureClass.DIAGNOSTIC, reason)
    result = ToolResult(False, error="cancelled", failure=failure, audit=Audit("fetch", "c", TS, 1.0, 1, end))
    with opened_records(tmp_path) as records:
        journal = CallJournal(records)
        journal.write([row_of(ToolCall("fetch", {}), result, Turn())])
        assert [row["end"] for row in journal.audit.recent(failed=True)] == [end]
        assert journal.failures.recent() == []


def test_error_texts_are_truncated_and_storable(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        journal = CallJournal(records)
        journal.write([failed(0, error="x" * 10_000), failed(1, error="\ud800\0")])
        odd, long = journal.failures.recent()
    assert len(long["error_text"]) == MAX_ERROR_CHARACTERS
    assert odd["error_text"] == "\\ud800\\0"


@pytest.mark.spec("STATE-3")
def test_a_failure_is_kept_longer_than_the_audit_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_journal, "FAILURES_KEPT", 20)
    monkeypatch.setattr(call_journal, "SWEEP_EVERY", 10)
    with opened_records(tmp_path) as records:
        journal = CallJournal(records, kept=5)
        for start in range(0, 100, 10):
            journal.write([failed(start), *(succeeded(n) for n in range(start + 1, start + 10))])
        assert [row["call_id"] for row in journal.audit.recent(50)] == [f"s{n}" for n in range(99, 94, -1)]
        assert [row["call_id"] for row in journal.failures.recent(50)] == [f"c{n}" for n in range(90, -1, -10)]
        assert [(day.count, day.failed) for day in journal.outcomes.dropped()] == [(95, 10)]
        for start in range(100, 130, 10):
            journal.write([failed(n) for n in range(start, start + 10)])
        assert [row["call_id"] for row in journal.failures.recent(50)] == [f"c{n}" for n in range(129, 109, -1)]
        assert [(day.count, day.failed) for day in journal.outcomes.dropped()] == [(125, 35)]


@pytest.mark.spec("STATE-3")
def test_outcomes_count_deleted_calls_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_journal, "SWEEP_EVERY", 10)
    with opened_records(tmp_path) as records:
        journal = CallJournal(records, kept=4)
        journal.write([failed(n) for n in range(3)] + [succeeded(n) for n in range(9)])
        journal.write([succeeded(10) | {"tool": "other", "success": None, "duration_ms": None}])
        fetch, other = journal.outcomes.by_tool()
    assert (fetch.tool, fetch.calls, fetch.failed, fetch.total_ms) == ("fetch", 12, 3, 42.0)
    assert fetch.failure_rate == 0.25
    assert (other.tool, other.calls, other.failed, other.total_ms) == ("other", 1, 1, 0.0)


def old_home(folder: Path, *, data: str = "data TEXT,") -> None:
    """Make the tables of an earlier release, with a failure whose call is kept and one whose call was deleted."""
    with opened_records(folder) as records, records.begin() as connection:
        run = connection.exec_driver_sql
        run(OLD_CALLS.format(data=data))
        run("CREATE INDEX ix_call_log_tool ON call_log (tool)")
        run(OLD_FAILURES)
        for number, end, success in ((7, "ok", 1), (8, "error", 0), (9, "started", None)):
            run(
                "INSERT INTO call_log (id, call_id, ts, tool, user, agent, risk, arguments, end, success, attempts, "
                "side_effects) VALUES (?, ?, ?, 'fetch', 'ada', 'main', 'LOW', '{}', ?, ?, 1, '[]')",
                (number, f"c{number}", TS, end, success),
            )
        for number in (2, 5, 5, 8, 9):
            run(
                "INSERT INTO failures (ts, tool, call_id, failure_class, reason, error_text) "
                "VALUES (?, 'fetch', ?, 'UNKNOWN', 'unexpected', ?)",
                (TS, f"c{number}", f"error {number}"),
            )


def tables(records: Records) -> set[str]:
    with records.read() as connection:
        return set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())


@pytest.mark.spec("STATE-1")
@pytest.mark.parametrize("data", ["data TEXT,", ""])
def test_the_logs_of_an_earlier_release_become_one_journal(tmp_path: Path, data: str) -> None:
    old_home(tmp_path, data=data)
    with opened_records(tmp_path) as records:
        journal = CallJournal(records)
        assert [(row["id"], row["end"]) for row in journal.audit.recent()] == [(9, "started"), (8, "error"), (7, "ok")]
        assert journal.audit.recent(1)[0]["reason"] == "unexpected"
        assert [(row["call_id"], row["error_text"]) for row in journal.failures.recent()] == [
            (f"c{number}", f"error {number}") for number in (9, 8, 5, 2)
        ]
        assert [(one.calls, one.failed) for one in journal.outcomes.by_tool()] == [(3, 2)]
        assert "failures" not in tables(records)
        assert "call_log_failures" in tables(records)
    with opened_records(tmp_path) as records:  # a second time changes nothing
        journal = CallJournal(records)
        journal.write([failed(10), succeeded(11)])
        assert [row["call_id"] for row in journal.failures.recent()] == ["c10", "c9", "c8", "c5", "c2"]
        assert [row["id"] for row in journal.audit.recent(2)] == [11, 10]


def test_failures_are_read_through_their_index(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        CallJournal(records)
        query = "SELECT id FROM call_log WHERE error_text IS NOT NULL AND failure_class = 'FATAL' ORDER BY id DESC"
        with records.read() as connection:
            plan = " ".join(row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}"))
    assert "call_log_failures" in plan
    assert "TEMP B-TREE" not in plan
