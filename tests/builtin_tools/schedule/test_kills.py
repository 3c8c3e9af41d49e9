"""Processes run jobs and are killed, while the clock runs, jumps and changes to and from daylight saving: every instant
has exactly one row, nothing that may not be repeated takes place twice, and nothing is skipped silently.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from builtin_tools.schedule.store import JobStore
from builtin_tools.schedule.tables import CLAIMED, DUE, INSTANTS
from builtin_tools.schedule.triggers.wall_time import instant_of
from engine.contract.scheduler import InstantState, JobAction
from tests.builtin_tools.schedule.job_process import SharedClock, effects, work
from tests.builtin_tools.schedule.jobs import new_job
from tests.eventually import eventually_sync
from tests.stores.processes import Other, other

pytestmark = [pytest.mark.spec("JOB-1"), pytest.mark.slow]

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo")
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEDULES = (
    "30 2 * * *",
    "0 30 0 * * *",
    "every weekday at 9",
    "every monday at 2:30",
    "every 3 days at 2:15",
    "on the last day of every month at 23:30",
    "every 36 hours",
    "every 2 weeks on Sunday at 2:30",
    "0 */12 * * *",
    "30 * * 3,4,10 0",  # every hour on Sundays, on which clocks change
    "every first Sunday of the month at 2:30",
)
RARE = (
    "every monday at 2:30",
    "on the last day of every month at 23:30",
    "every 2 weeks on Sunday at 2:30",
    "every first Sunday of the month at 0:30",
    "every 30 days at 2:15",
    "0 0 */6 1 * *",
    "yearly on 29 March at 2:30",
    "monthly on the 25th at 1:59",
)
OVER = (InstantState.DONE, InstantState.MISSED, InstantState.UNKNOWN)


class SimulatedYear:
    """A home whose jobs are run by processes that the simulation starts and kills."""

    def __init__(self, folder: Path, jobs: int, seed: int, schedules: Sequence[str]) -> None:
        self.folder = folder
        self.pick = random.Random(seed)
        self.clock = SharedClock(folder / "clock")
        self.now = self.latest = START
        self.clock.set(START)
        self.store = JobStore.open(folder / "schedule.db", self.clock)
        self.jobs = []
        for number in range(jobs):
            job = new_job(
                f"{number:05}",
                schedules[number % len(schedules)],
                START,
                ZONES[number // len(schedules) % len(ZONES)],
                misfire=self.pick.choice(["once", "all", "none"]),
                jitter_s=self.pick.choice([0, 0, 30]),
                action=JobAction("tool", self.pick.choice(["look", "ping"])),
            )
            self.jobs.append(job)
        self.store.add_all(self.jobs)

    def move(self, by: timedelta) -> None:
        self.now += by
        self.latest = max(self.latest, self.now)
        self.clock.set(self.now)

    def step_clock(self) -> None:
        """Move the clock: usually by hours, sometimes far ahead or back."""
        drawn = self.pick.random()
        if drawn < 0.04:
            self.move(timedelta(days=self.pick.uniform(1, 6)))
        elif drawn < 0.08:
            self.move(-timedelta(hours=self.pick.uniform(0, 30)))
        else:
            self.move(timedelta(hours=self.pick.uniform(0, 9)))

    def idle(self) -> bool:
        """Return whether the processes have nothing to do."""
        with self.store._records.read() as connection:
            ready = DUE & (INSTANTS.c.due_at <= self.store.now())
            waiting = connection.execute(select(func.count()).where(CLAIMED | ready)).scalar_one()
        planned = self.store.step("observer", 0, None).next_at
        return not waiting and (planned is None or planned > self.store.now())

    def settle(self) -> None:
        """Wait until the processes have nothing to do."""
        eventually_sync(self.idle, deadline_s=300, pause_s=0.02)

    def check(self) -> Counter[str]:
        """Compare the rows with the triggers and the effects, and return how many instants have each state."""
        took_place = Counter(effects(self.folder / "effects"))
        with self.store._records.read() as connection:
            delayed = DUE & (INSTANTS.c.due_at > self.store.now())
            assert connection.execute(select(func.count()).where(delayed)).scalar_one() == 0
            rows = {(row.job, row.instant): row.state for row in connection.execute(select(INSTANTS)).all()}
        expected = set()
        for job in self.jobs:
            at = job.trigger.next_after(job.created)
            while at is not None and at <= instant_of(self.latest):
                expected.add((job.id, at))
                at = job.trigger.next_after(at)
        assert set(rows) == expected
        assert set(took_place) <= expected
        repeatable = {job.id for job in self.jobs if job.request.action.target == "look"}
        for key, state in rows.items():
            count = took_place[key]
            assert state in OVER, (key, state)
            assert count <= 1 or key[0] in repeatable, (key, state, count)
            assert (state != InstantState.DONE) or count >= 1, (key, state, count)
            assert (state != InstantState.MISSED) or count == 0, (key, state, count)
        return Counter(rows.values())


def simulate(
    folder: Path,
    *,
    jobs: int,
    days: int,
    kills: int,
    schedules: Sequence[str] = SCHEDULES,
    seed: int = 1,
    processes: int = 3,
) -> Counter[str]:
    """Simulate days with so many kills, and check the result."""
    year = SimulatedYear(folder, jobs, seed, schedules)
    with ExitStack() as stack:

        def begin() -> Other:
            process = stack.enter_context(other(work, str(folder), 20))
            assert process.hear() == "ready"
            return process

        running = [begin() for _ in range(processes)]
        killed = 0
        while year.latest < START + timedelta(days=days) or killed < kills:
            if year.latest < START + timedelta(days=days):
                year.step_clock()
            share = (year.latest - START) / timedelta(days=days)
            if killed < kills and (killed < kills * share or share >= 1):
                index = year.pick.randrange(processes)
                running[index].pipe.poll(year.pick.random() * 0.03)  # the kill comes at any moment of its work
                running[index].kill()
                running[index] = begin()
                killed += 1
            elif year.pick.random() < 0.2:
                year.settle()
        year.move(year.latest - year.now + timedelta(minutes=1))
        year.settle()
        year.now = year.now.replace(minute=20, second=0)  # no schedule has an instant near, so no run is delayed
        year.move(timedelta(hours=1))
        for _ in range(processes):
            year.settle()
        found = year.check()
    year.store.close()
    return found


@pytest.mark.timeout(600)
def test_three_processes_and_kills_over_two_months_with_changes_of_the_clock(tmp_path: Path) -> None:
    found = simulate(tmp_path, jobs=50, days=100, kills=20)
    assert found[InstantState.DONE] > 500
    assert found[InstantState.MISSED] > 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_kills_and_two_thousand_jobs_over_a_year(tmp_path: Path) -> None:
    found = simulate(tmp_path, jobs=2_000, days=365, kills=1_000, schedules=(*RARE, *RARE, SCHEDULES[0]))
    assert found[InstantState.DONE] > 20_000
