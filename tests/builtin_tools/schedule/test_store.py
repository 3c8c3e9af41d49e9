"""Every instant has one row, whatever the clock and the workers do."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from builtin_tools.schedule.claims import MOST_DEATHS
from builtin_tools.schedule.retention import KEPT, delete_old
from builtin_tools.schedule.store import JobStore, TooManyJobs, UnknownJob
from builtin_tools.schedule.triggers.wall_time import instant_of
from engine.contract.scheduler import InstantState, JobLimits, JobState, Misfire
from tests.builtin_tools.schedule.jobs import START, SteppedClock, begin, end, new_job, run, run_all

pytestmark = pytest.mark.spec("JOB-1")


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SteppedClock) -> Iterator[JobStore]:
    opened = JobStore.open(tmp_path / "schedule.db", clock)
    yield opened
    opened.close()


def states(store: JobStore, job_id: str) -> Counter[InstantState]:
    return Counter(each.state for each in store.history(None, job_id, 10_000))


def test_an_instant_becomes_due_at_its_time_and_runs_once(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 15 minutes"), 10)
    assert run_all(store) == []
    clock.later(minutes=15)
    assert run_all(store) == [("a", instant_of(START + timedelta(minutes=15)))]
    assert run_all(store) == []
    (row,) = store.history("ada", "a", 10)
    assert (row.state, row.attempts, row.at) == (InstantState.DONE, 1, START + timedelta(minutes=15))


@pytest.mark.spec("JOB-2")
@pytest.mark.parametrize(("misfire", "ran"), [("once", 1), ("all", 40), ("none", 0)])
def test_missed_instants_all_have_rows_and_run_as_the_policy_says(
    store: JobStore, clock: SteppedClock, misfire: Misfire, ran: int
) -> None:
    store.add(new_job("a", "every 15 minutes", misfire=misfire), 10)
    clock.later(hours=10, minutes=5)
    assert len(run_all(store)) == ran
    found = states(store, "a")
    assert found[InstantState.DONE] == ran
    assert found[InstantState.MISSED] == 40 - ran
    clock.later(minutes=10)
    assert len(run_all(store)) == 1


def test_more_missed_instants_than_fit_in_a_transaction_all_get_rows(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 second"), 10)
    clock.later(seconds=900)
    ran = run_all(store)
    assert sum(states(store, "a").values()) == 900
    assert ran[-1][1] == instant_of(clock.time)
    assert len(ran) <= 62  # those of the last minute, which are not late


def test_only_the_newest_instants_are_kept_and_none_of_those_that_are_due(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 second", misfire="none"), 10)
    clock.later(seconds=5_000)
    ran = run_all(store)
    assert len(ran) == 61  # those of the last minute
    assert sum(states(store, "a").values()) <= KEPT
    assert store.history(None, "a", 1)[0].at == clock.time


def test_instants_that_wait_too_long_for_a_worker_follow_the_policy(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 10 seconds"), 10)
    clock.later(seconds=10)
    (slow,) = store.step("w", 1, None).claimed
    for _ in range(30):
        clock.later(seconds=10)
        assert store.step("w", 1, None).claimed == []
    run(store, slow)
    assert states(store, "a")[InstantState.DUE] == 30
    run_all(store)
    found = states(store, "a")
    assert found[InstantState.MISSED] + found[InstantState.DONE] == 31
    assert 1 < found[InstantState.DONE] < 10


def test_a_clock_that_is_set_back_runs_nothing_twice(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 15 minutes"), 10)
    ran = []
    for _ in range(8):
        clock.later(minutes=15)
        ran += run_all(store)
    clock.later(hours=-1)
    for _ in range(8):
        clock.later(minutes=15)
        ran += run_all(store)
    assert len(ran) == len(set(ran)) == 12
    assert sum(states(store, "a").values()) == 12


def test_a_clock_that_was_far_ahead_does_not_silence_a_job(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 hour"), 10)
    store.add(new_job("b", "in 3 hours", misfire="none"), 10)
    clock.later(days=30)
    ran = run_all(store)
    assert ran == [("a", instant_of(clock.time))]
    assert store.job(None, "b").state is JobState.ENDED
    clock.later(days=-30)
    for _ in range(24 * 31):
        clock.later(hours=1)
        ran += run_all(store)
    assert len(ran) == len(set(ran)) == 24 * 31 + 1
    assert states(store, "a") == {InstantState.DONE: 24 * 31}
    assert states(store, "b") == {InstantState.DONE: 1}


def test_instants_that_were_deleted_do_not_come_back_when_the_clock_is_set_back(
    store: JobStore, clock: SteppedClock
) -> None:
    store.add(new_job("a", "every 1 hour"), 10)
    ran = []
    for _ in range(24):
        clock.later(hours=1)
        ran += run_all(store)
    with store._records.begin() as connection:
        delete_old(connection, "a", kept=3)
    assert sum(states(store, "a").values()) == 3
    clock.later(hours=-20)
    for _ in range(30):
        clock.later(hours=1)
        ran += run_all(store)
    assert len(ran) == len(set(ran)) == 34


def test_two_workers_never_hold_the_same_job(store: JobStore, clock: SteppedClock) -> None:
    for number in range(10):
        store.add(new_job(f"j{number}", "every 1 minute", misfire="all"), 100)
    clock.later(minutes=5)
    first = store.step("one", 4, None).claimed
    second = store.step("two", 100, None).claimed
    assert len(first) == 4
    assert len(second) == 6
    assert len({each.job.id for each in [*first, *second]}) == 10
    assert store.step("three", 100, None).claimed == []
    assert not begin(store, first[0], "two", repeatable=False)


@pytest.mark.parametrize(
    ("begun", "repeatable", "then"),
    [
        (False, False, InstantState.DUE),
        (True, True, InstantState.DUE),
        (True, False, InstantState.UNKNOWN),
    ],
)
def test_what_a_dead_worker_held_is_repeated_only_if_that_is_safe(
    store: JobStore, clock: SteppedClock, begun: bool, repeatable: bool, then: InstantState
) -> None:
    store.add(new_job("a", "every 1 hour"), 10)
    clock.later(hours=1)
    (held,) = store.step("dead", 1, None).claimed
    if begun:
        assert begin(store, held, "dead", repeatable=repeatable)
    step = store.step("alive", 0, lambda worker: worker != "dead")
    assert len(step.unknown) == (then is InstantState.UNKNOWN)
    assert states(store, "a") == {then: 1}
    assert not end(store, held, "dead")
    assert len(store.step("alive", 1, None).claimed) == (then is InstantState.DUE)


def test_an_instant_whose_workers_keep_dying_is_given_up(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 day"), 10)
    clock.later(days=1)
    for _ in range(MOST_DEATHS):
        (held,) = store.step("dead", 1, lambda worker: False).claimed
        assert begin(store, held, "dead", repeatable=True)
    assert store.step("alive", 1, lambda worker: False).claimed == []
    assert states(store, "a") == {InstantState.UNKNOWN: 1}


@pytest.mark.spec("JOB-2")
def test_jitter_delays_each_run_by_less_than_its_limit(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 hour", jitter_s=600), 10)
    delays = set()
    for _ in range(20):
        clock.time = START.replace(minute=30) + (clock.time - START + timedelta(minutes=59)) // timedelta(
            hours=1
        ) * timedelta(hours=1)
        clock.later(hours=1)
        waited = 0
        while not run_all(store):
            clock.later(seconds=30)
            waited += 1
            assert waited <= 21
        delays.add(waited)
        clock.later(seconds=-30 * waited)
    assert len(delays) > 5


@pytest.mark.spec("JOB-2")
def test_a_paused_job_does_not_run_until_it_is_resumed(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 hour"), 10)
    assert store.pause("ada", "a", "on request").state is JobState.PAUSED
    clock.later(hours=5)
    assert run_all(store) == []
    resumed = store.resume("ada", "a")
    assert resumed.next_at == instant_of(START + timedelta(hours=6))
    clock.later(hours=1)
    assert len(run_all(store)) == 1
    with pytest.raises(UnknownJob):
        store.pause("bob", "a", "on request")


@pytest.mark.spec("JOB-2")
def test_a_job_can_be_run_at_once_even_twice_in_a_millisecond(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("a", "every 1 hour"), 10)
    store.pause("ada", "a", "on request")
    assert store.run_now("ada", "a") != store.run_now("ada", "a")
    assert len(run_all(store)) == 2
    assert all(each.manual for each in store.history("ada", "a", 10))


@pytest.mark.spec("JOB-2")
def test_a_budget_that_is_used_up_pauses_the_job(store: JobStore, clock: SteppedClock) -> None:
    store.add(new_job("runs", "every 1 hour", limits=JobLimits(runs=3)), 10)
    store.add(new_job("fails", "every 1 hour", limits=JobLimits(failures=2)), 10)
    for _ in range(5):
        clock.later(hours=1)
        run_all(store, state=InstantState.FAILED)
    assert store.job(None, "runs").why == "its budget of 3 runs is used up"
    assert store.job(None, "fails").why == "2 runs failed one after the other"
    assert states(store, "fails")[InstantState.FAILED] == 2


@pytest.mark.spec("JOB-2")
def test_a_user_has_a_limited_number_of_jobs_and_sees_only_those(store: JobStore) -> None:
    store.add(new_job("a", "every 1 hour"), 1)
    with pytest.raises(TooManyJobs):
        store.add(new_job("b", "every 1 hour"), 1)
    assert [job.id for job in store.jobs("ada")] == ["a"]
    assert store.jobs("bob") == []
    store.delete("ada", "a")
    assert store.jobs(None) == []
