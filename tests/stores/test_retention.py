"""Retention: logs keep the configured number of rows and undelivered events, and counts of all others."""

from pathlib import Path

import pytest

from acquired_skills.store.ledger import Ledger
from acquired_skills.store.totals import Counted, SkillCall
from engine.stores.call_journal import CallJournal
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog, UnknownSubscriber
from engine.stores.event_retention import SWEEP_EVERY
from tests.skills.parts import opened_records
from tests.stores.test_event_log import Clock

pytestmark = pytest.mark.spec("STATE-3")

DAY_S = 86_400.0


def test_an_event_is_dropped_and_counted_when_every_subscriber_has_processed_it(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        log = EventLog(records, SystemClock(), kept=10, most_attempts=1)
        log.subscribe("reader")
        log.subscribe("sleeper")
        for _ in range(3):
            log.append_all([("A", {"n": n}) for n in range(SWEEP_EVERY)])
        assert log.read(limit=1)[0].offset == 1  # no subscriber has fetched any
        assert log.history() == []
        first, second, *others = log.fetch("reader", 2 * SWEEP_EVERY)
        log.ack("reader", [each.event.offset for each in others])
        log.nack("reader", second.event.offset, "no use")  # a dead letter at once; the first is not acknowledged
        log.append_all([("B", {})] * SWEEP_EVERY)
        assert log.read(limit=1)[0].offset == 1  # the sleeper has fetched none
        log.unsubscribe("sleeper")
        log.append_all([("B", {})] * SWEEP_EVERY)
        kept = [each.offset for each in log.read(limit=5 * SWEEP_EVERY)]
        assert kept == [first.event.offset, second.event.offset, *range(2 * SWEEP_EVERY + 1, 5 * SWEEP_EVERY + 1)]
        assert [each.event.offset for each in log.dead_letters("reader")] == [second.event.offset]
        assert sum(day.count for day in log.history()) == 2 * SWEEP_EVERY - 2
        assert [each.event.offset for each in log.fetch("reader", 1)] == [2 * SWEEP_EVERY + 1]


def test_an_absent_subscriber_that_holds_up_the_log_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with opened_records(tmp_path) as records:
        log = EventLog(records, clock, kept=10, subscriber_days=30)
        for name in ("gone", "slow", "idle"):
            log.subscribe(name)
        log.append_all([("A", {})] * SWEEP_EVERY)
        assert len(log.fetch("idle", 2 * SWEEP_EVERY)) == SWEEP_EVERY
        log.ack("idle", range(1, SWEEP_EVERY + 1))
        clock.pass_by(20 * DAY_S)
        log.fetch("slow", 1)
        clock.pass_by(20 * DAY_S)
        log.append_all([("A", {})] * 5)
        log.fetch("idle", 10)
        log.append_all([("A", {})] * (SWEEP_EVERY - 5))
        assert "'gone' has fetched nothing for too long" in caplog.text
        with pytest.raises(UnknownSubscriber):
            log.fetch("gone")
        assert log.read(limit=1)[0].offset == 1  # the slow one has one to acknowledge, and has not fetched the others
        log.subscribe("gone", from_start=True)
        assert [each.event.offset for each in log.fetch("gone", 1)] == [1]
        log.unsubscribe("slow")
        log.unsubscribe("gone")
        clock.pass_by(40 * DAY_S)
        log.append_all([("A", {})] * SWEEP_EVERY)
        with pytest.raises(UnknownSubscriber):
            log.fetch("idle")
        assert log.read(limit=1)[0].offset == 3 * SWEEP_EVERY - 9


def test_an_absent_subscriber_that_is_not_behind_is_kept(tmp_path: Path) -> None:
    clock = Clock()
    with opened_records(tmp_path) as records:
        log = EventLog(records, clock, kept=2 * SWEEP_EVERY)
        log.subscribe("reader")
        clock.pass_by(400 * DAY_S)
        log.append_all([("A", {})] * SWEEP_EVERY)
        assert len(log.fetch("reader", 2 * SWEEP_EVERY)) == SWEEP_EVERY


def test_subscribers_of_an_earlier_release_count_as_seen_when_the_log_is_opened(tmp_path: Path) -> None:
    clock = Clock()
    with opened_records(tmp_path) as records:
        EventLog(records, clock).subscribe("old")
        with records.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE event_subscribers DROP COLUMN seen")
        log = EventLog(records, clock, kept=10)
        log.append_all([("A", {})] * SWEEP_EVERY)
        assert len(log.fetch("old", 2 * SWEEP_EVERY)) == SWEEP_EVERY


def test_the_newest_event_is_kept_so_that_offsets_continue(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        log = EventLog(records, SystemClock(), kept=1)
        log.append_all([("A", {})] * SWEEP_EVERY)
        assert [each.offset for each in log.read(limit=2)] == [SWEEP_EVERY]
        log.subscribe("late")
        assert log.append("A", {}) == SWEEP_EVERY + 1
        assert [each.event.offset for each in log.fetch("late")] == [SWEEP_EVERY + 1]


def test_dropped_calls_are_counted_by_day_and_tool(tmp_path: Path) -> None:
    row = {
        **dict.fromkeys(("user", "agent", "arguments", "end", "failure_class", "reason"), "x"),
        "risk": "LOW",
        "attempts": 1,
        "duration_ms": 2.0,
        "side_effects": "[]",
        "tool": "echo",
    }
    with opened_records(tmp_path) as records:
        log = CallJournal(records, kept=100)
        rows = [
            {**row, "call_id": str(n), "ts": f"2026-01-0{1 + n % 2}T00", "success": n % 10 > 0} for n in range(1000)
        ]
        log.write(rows)
        assert len(log.audit.recent(1_000)) == 100
        found = log.outcomes.dropped()
        assert [(day.day, day.name, day.count) for day in found] == [
            ("2026-01-01", "echo", 450),
            ("2026-01-02", "echo", 450),
        ]
        assert sum(day.failed for day in found) == 90
        assert sum(day.duration_ms for day in found) == 1800.0


@pytest.mark.spec("SKILL-12")
def test_totals_of_a_skill_include_all_of_its_calls(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        calls = [SkillCall("add_one", 1, f"{n:04}", n % 4 > 0, counted=n % 8 == 0, latency_ms=3.0) for n in range(1000)]
        ledger.log(calls)
        (stats,) = ledger.stats()
        assert (stats.calls, stats.successes, stats.failures, stats.uncounted) == (1000, 750, 125, 125)
        assert (stats.mean_ms, stats.last) == (3.0, "0999")
        ledger.forgive("add_one", 1)
        (stats,) = ledger.stats(["add_one"])
        assert (stats.failures, stats.uncounted) == (0, 250)
        assert ledger.latest("add_one", 1).failures == 0


SINGLE_CALLS = """
    CREATE TABLE skill_calls (
        id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(63) NOT NULL, version INTEGER NOT NULL, ts VARCHAR(40) NOT NULL,
        success BOOLEAN NOT NULL, counted BOOLEAN NOT NULL, latency_ms FLOAT, failure_class VARCHAR(20))
"""


@pytest.mark.spec("SKILL-12")
@pytest.mark.parametrize("with_totals", [False, True])
def test_single_calls_of_an_earlier_release_are_replaced_by_totals(tmp_path: Path, with_totals: bool) -> None:
    calls = [SkillCall("add_one", 1, "t", ok, True, 2.0) for ok in (True, False, True, True, False, False)]
    calls.append(SkillCall("add_one", 1, "u", False, False, 2.0))
    expected = tmp_path / "expected"
    expected.mkdir()
    with opened_records(expected) as records:
        ledger = Ledger(records)
        ledger.log(calls)
        stats, latest = ledger.stats(), ledger.latest("add_one", 1)
    assert latest == Counted(2, 3)
    with opened_records(tmp_path) as records:
        if with_totals:
            Ledger(records).log(calls)
        with records.begin() as connection:
            connection.exec_driver_sql(SINGLE_CALLS)
            connection.exec_driver_sql("CREATE INDEX skill_calls_by_version ON skill_calls (name, version)")
            for call in calls:
                connection.exec_driver_sql(
                    "INSERT INTO skill_calls (name, version, ts, success, counted, latency_ms) VALUES (?, ?, ?, ?, ?, ?)",
                    (call.name, call.version, call.ts, call.success, call.counted, call.latency_ms),
                )
        ledger = Ledger(records)
        assert (ledger.stats(), ledger.latest("add_one", 1)) == (stats, latest)
        with records.read() as connection:
            names = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
        assert "skill_calls" not in names
