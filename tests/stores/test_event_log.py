"""The event log: every event is delivered, and none again after its acknowledgement, even with `kill -9`."""

import json
import os
import random
import select
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.stores.event_log import LONGEST_WAIT_S, EventLog, UnknownSubscriber
from engine.stores.records import Records
from tests.stores.event_log_victims import read_on, write_on
from tests.stores.processes import Other, other

pytestmark = pytest.mark.spec("REG-9")


class Clock:
    """Time that the test controls."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def pass_by(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Iterator[EventLog]:
    records = Records.open(f"sqlite:///{tmp_path}/events.db", power_cuts=True)
    yield EventLog(records, clock, most_attempts=3)
    records.close()


def offsets(deliveries: list) -> list[tuple[int, int]]:
    return [(each.event.offset, each.attempt) for each in deliveries]


def test_each_subscriber_gets_each_event_once_in_order_and_at_its_own_pace(log: EventLog) -> None:
    log.subscribe("a")
    log.subscribe("b")
    log.append_all([("x", {"n": n}) for n in range(5)])
    first = log.fetch("a", 3)
    assert [(each.event.payload["n"], each.attempt) for each in first] == [(0, 1), (1, 1), (2, 1)]
    assert log.ack("a", [each.event.offset for each in first]) == 3
    assert [each.event.payload["n"] for each in log.fetch("a")] == [3, 4]
    assert [each.event.payload["n"] for each in log.fetch("b")] == [0, 1, 2, 3, 4]
    assert log.fetch("a") == []


def test_a_late_subscriber_starts_with_the_next_event_unless_it_subscribes_from_the_start(log: EventLog) -> None:
    log.append("x", {"n": 0})
    log.subscribe("late")
    log.subscribe("all", from_start=True)
    log.append("x", {"n": 1})
    assert [each.event.payload["n"] for each in log.fetch("late")] == [1]
    assert [each.event.payload["n"] for each in log.fetch("all")] == [0, 1]


def test_a_subscriber_of_some_types_is_not_held_up_by_others(log: EventLog) -> None:
    log.subscribe("a", types=["y"])
    log.append_all([("x", {})] * 10 + [("y", {"n": 1})] + [("x", {})] * 10)
    assert [each.event.payload for each in log.fetch("a", 1)] == [{"n": 1}]
    assert log.fetch("a") == []
    log.append("y", {"n": 2})
    assert [each.event.payload for each in log.fetch("a")] == [{"n": 2}]


def test_an_event_not_acknowledged_within_its_lease_is_delivered_again(log: EventLog, clock: Clock) -> None:
    log.subscribe("a")
    log.append("x", {})
    assert offsets(log.fetch("a", lease_s=10)) == [(1, 1)]
    clock.pass_by(9.9)
    assert log.fetch("a") == []
    clock.pass_by(0.1)
    assert offsets(log.fetch("a")) == [(1, 2)]


def test_setting_the_clock_back_two_days_does_not_freeze_leases(log: EventLog, clock: Clock) -> None:
    log.subscribe("a")
    log.append("X", {})
    assert offsets(log.fetch("a")) == [(1, 1)]
    clock.pass_by(-2 * 24 * 3600)
    assert offsets(log.fetch("a")) == [(1, 2)], "the lease was given under a clock that no longer holds"
    assert log.fetch("a") == [], "the new lease counts"
    assert log.nack("a", 1, "not now")
    clock.pass_by(-3600)
    assert offsets(log.fetch("a")) == [(1, 3)]


def test_after_the_clock_is_set_back_an_event_is_delivered_again_within_the_longest_wait(
    log: EventLog, clock: Clock
) -> None:
    log.subscribe("a")
    log.append("X", {})
    log.fetch("a", lease_s=10)
    clock.pass_by(-60)
    assert log.fetch("a") == [], "its lease may still run"
    clock.pass_by(LONGEST_WAIT_S)
    assert offsets(log.fetch("a")) == [(1, 2)]


def test_a_rejected_event_is_delivered_again_with_back_off_and_becomes_a_dead_letter(
    log: EventLog, clock: Clock
) -> None:
    log.subscribe("a")
    log.append("x", {"n": 1})
    for attempt, wait in ((1, 1.0), (2, 2.0)):
        assert offsets(log.fetch("a")) == [(1, attempt)]
        assert log.nack("a", 1, "no")
        clock.pass_by(wait - 0.01)
        assert log.fetch("a") == []
        clock.pass_by(0.01)
    assert offsets(log.fetch("a")) == [(1, 3)]
    assert log.nack("a", 1, "cannot be read")
    clock.pass_by(10_000)
    assert log.fetch("a") == []
    (dead,) = log.dead_letters("a")
    assert (dead.event.payload, dead.attempts, dead.reason) == ({"n": 1}, 3, "cannot be read")
    assert log.revive("a", 1)
    assert offsets(log.fetch("a")) == [(1, 1)]
    assert log.dead_letters("a") == []


def test_an_event_that_kills_its_reader_each_time_becomes_a_dead_letter(log: EventLog, clock: Clock) -> None:
    log.subscribe("a")
    log.append("x", {})
    for _ in range(3):
        assert len(log.fetch("a", lease_s=1)) == 1
        clock.pass_by(1)
    assert log.fetch("a") == []
    assert [dead.reason for dead in log.dead_letters("a")] == ["not acknowledged in time"]


def test_replay_delivers_everything_past_an_offset_as_new(log: EventLog) -> None:
    log.subscribe("a")
    log.append_all([("x", {"n": n}) for n in range(3)])
    log.ack("a", [each.event.offset for each in log.fetch("a")])
    log.replay("a", after=1)
    assert offsets(log.fetch("a")) == [(2, 1), (3, 1)]


def test_an_append_of_several_events_is_atomic(log: EventLog) -> None:
    with pytest.raises(TypeError):
        log.append_all([("x", {}), ("x", {"cannot": object()})])
    assert log.read() == []


def test_fetching_without_a_subscription_is_an_error(log: EventLog) -> None:
    with pytest.raises(UnknownSubscriber, match="Call `subscribe` first"):
        log.fetch("nobody")


def test_the_generation_shows_an_append_of_another_process(log: EventLog, tmp_path: Path) -> None:
    before = log.generation()
    other = Records.open(f"sqlite:///{tmp_path}/events.db")
    EventLog(other, Clock()).append("x", {})
    other.close()
    assert log.generation() == before + 1


class Deliveries(RuleBasedStateMachine):
    """Operations in any order: nothing is lost, and nothing acknowledged is delivered again."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.records = Records.open(f"sqlite:///{self.folder.name}/events.db")
        self.clock = Clock()
        self.log = EventLog(self.records, self.clock, most_attempts=3)
        self.log.subscribe("a")
        self.appended = 0
        self.acked: set[int] = set()
        self.seen: set[int] = set()

    def teardown(self) -> None:
        self.clock.pass_by(1000)
        while found := self.log.fetch("a", lease_s=0.5):
            self.take(found)
            self.clock.pass_by(1000)
        dead = {each.event.offset for each in self.log.dead_letters("a")}
        assert self.seen == set(range(1, self.appended + 1))
        assert dead | self.acked == self.seen
        assert not dead & self.acked
        self.records.close()
        self.folder.cleanup()

    def take(self, found: list) -> None:
        for each in found:
            assert each.event.offset not in self.acked
            assert (each.attempt == 1) == (each.event.offset not in self.seen)
            self.seen.add(each.event.offset)

    @rule(count=some.integers(1, 4))
    def append(self, count: int) -> None:
        self.log.append_all([("x", {})] * count)
        self.appended += count

    @rule(limit=some.integers(1, 5), ack=some.booleans(), nack=some.booleans())
    def fetch(self, limit: int, ack: bool, nack: bool) -> None:
        found = self.log.fetch("a", limit)
        self.take(found)
        for each in found:
            if ack:
                assert self.log.ack("a", [each.event.offset]) == 1
                self.acked.add(each.event.offset)
            elif nack:
                assert self.log.nack("a", each.event.offset, "no")

    @rule(seconds=some.sampled_from([0.5, 2, 40, 400]))
    def wait(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    @rule()
    def open_anew(self) -> None:
        self.records.close()
        self.records = Records.open(f"sqlite:///{self.folder.name}/events.db")
        self.log = EventLog(self.records, self.clock, most_attempts=3)

    @invariant()
    def order_is_kept(self) -> None:
        found = [event.offset for event in self.log.read(limit=1000)]
        assert found == list(range(1, self.appended + 1))


Deliveries.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestDeliveries = Deliveries.TestCase


def started(stack: ExitStack, body: Callable[..., None], *arguments: object) -> Other:
    victim = stack.enter_context(other(body, *arguments))
    assert victim.hear() == "ready"
    return victim


def whole_lines(journal: Path) -> list[str]:
    return journal.read_text().split("\n")[:-1] if journal.exists() else []


def kills(folder: Path, count: int, seed: int) -> None:
    """Kill two writers and a reader `count` times, then compare what they recorded with the database.

    Each process records what it does in a file. `judge` reads these files and the database, without code of the log.
    """
    chance = random.Random(seed)
    url = f"sqlite:///{folder}/events.db"
    journals = {name: folder / f"{name}.journal" for name in ("one", "two", "reader")}
    firsts = {"one": 0, "two": 0}

    def start(stack: ExitStack, name: str) -> Other:
        if name == "reader":
            return started(stack, read_on, url, str(journals[name]), False)
        # A new process numbers its events from here: it does not know which ones the killed one has appended.
        firsts[name] += 1_000_000
        return started(stack, write_on, url, name, str(journals[name]), firsts[name])

    with ExitStack() as all_of_them:
        stacks = {name: all_of_them.enter_context(ExitStack()) for name in journals}
        running = {name: start(stacks[name], name) for name in journals}
        for _ in range(count):
            select.select([], [], [], chance.random() * 0.05)
            name = chance.choice(list(running))
            running[name].kill()  # SIGKILL
            stacks[name].close()
            running[name] = start(stacks[name], name)
    with ExitStack() as stack:
        assert started(stack, read_on, url, str(journals["reader"]), True).end() == 0
    judge(folder, journals)


def judge(folder: Path, journals: dict[str, Path]) -> None:
    with sqlite3.connect(f"file:{folder}/events.db?mode=ro", uri=True) as database:
        rows = database.execute('SELECT "offset", payload FROM events ORDER BY "offset"').fetchall()
    stored = [(json.loads(payload)["by"], json.loads(payload)["n"]) for _, payload in rows]
    assert len(set(stored)) == len(stored), "an event is in the log twice"
    for name in ("one", "two"):
        confirmed = {(name, int(line)) for line in whole_lines(journals[name])}
        assert confirmed, "the writer never came to write"
        assert confirmed <= set(stored), "an append that had returned is not in the log"
        of_pairs = {n // 2 for by, n in stored if by == name}
        assert len([1 for by, _ in stored if by == name]) == 2 * len(of_pairs), "half of an append is in the log"
    acked: set[int] = set()
    delivered: dict[int, tuple[str, int]] = {}
    for line in whole_lines(journals["reader"]):
        kind, *rest = line.split()
        offset = int(rest[0])
        if kind == "acked":
            acked.add(offset)
            continue
        assert offset not in acked, f"{offset} was acknowledged and came again"
        assert kind == "again" or offset not in delivered, f"{offset} came as new for the second time"
        delivered[offset] = (rest[1], int(rest[2]))
    assert delivered.keys() >= {offset for offset, _ in rows} - acked
    assert [delivered[offset] for offset, _ in rows if offset in delivered] == [
        each for (offset, _), each in zip(rows, stored, strict=True) if offset in delivered
    ]
    lost = {offset for offset, _ in rows} - delivered.keys()
    assert not lost, f"never delivered: {sorted(lost)[:5]}"


def test_killed_writers_and_readers_lose_nothing_and_repeat_nothing_acknowledged(tmp_path: Path) -> None:
    kills(tmp_path, 8, seed=3)


@pytest.mark.soak
def test_a_thousand_kills_lose_nothing_and_repeat_nothing_acknowledged(tmp_path: Path) -> None:
    kills(tmp_path, int(os.environ.get("SOAK_RUNS", "1000")), seed=int(os.environ.get("SOAK_SEED", "5")))
