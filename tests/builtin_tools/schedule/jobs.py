"""Jobs for tests, and a clock that a test sets."""

from datetime import UTC, datetime, timedelta
from typing import Any

from builtin_tools.schedule.claims import ClaimedInstant, InstantOutcome, finish, start
from builtin_tools.schedule.job_rows import StoredJob
from builtin_tools.schedule.store import JobStore
from builtin_tools.schedule.triggers.spoken import read_schedule
from builtin_tools.schedule.triggers.wall_time import instant_of
from engine.contract.scheduler import InstantState, JobAction, JobRequest, JobState
from engine.contract.turn import Turn
from engine.times.time_zones import known_zone

START = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)
ADA = Turn(user="ada")
PING = JobAction("tool", "ping")


class SteppedClock:
    """A clock that moves only when the test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def later(self, **amount: float) -> None:
        self.time += timedelta(**amount)


def new_job(
    job_id: str, schedule: str, now: datetime = START, zone: str = "UTC", turn: Turn = ADA, **more: Any
) -> StoredJob:
    """Return a job that was created at a time."""
    created = instant_of(now)
    trigger = read_schedule(schedule, now, known_zone(zone))
    request = JobRequest(job_id, schedule, more.pop("action", PING), zone, **more)
    return StoredJob(
        job_id, turn, request, trigger, JobState.ACTIVE, "", created, trigger.next_after(created), None, created
    )


def run_all(store: JobStore, worker: str = "w", state: InstantState = InstantState.DONE) -> list[tuple[str, int]]:
    """Run everything that is due, and return (job, instant) of each run."""
    ran = []
    while True:
        step = store.step(worker, 10, None)
        ran += [run(store, claimed, worker, state) for claimed in step.claimed]
        if not step.claimed and (step.next_at is None or step.next_at > store.now()):
            return ran


def run(
    store: JobStore, claimed: ClaimedInstant, worker: str = "w", state: InstantState = InstantState.DONE
) -> tuple[str, int]:
    assert begin(store, claimed, worker)
    assert end(store, claimed, worker, state)
    return claimed.job.id, claimed.instant


def begin(store: JobStore, claimed: ClaimedInstant, worker: str, *, repeatable: bool = False) -> bool:
    """Record that an attempt begins."""
    (begun,) = store.apply([lambda connection, now: start(connection, claimed, worker, now, repeatable=repeatable)])
    return bool(begun)


def end(store: JobStore, claimed: ClaimedInstant, worker: str, state: InstantState = InstantState.DONE) -> bool:
    """Record that an attempt has ended."""
    (ended,) = store.apply([lambda connection, now: finish(connection, claimed, worker, InstantOutcome(state), now)])
    return bool(ended)
