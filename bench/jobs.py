"""Times a worker's look at the database of jobs when ten of them become due, in databases of different sizes.

"claim" adds the rows of the ten instants and claims them; "end" records that they began and ended. "idle" is a look
when nothing is due. All times are for one look, and include SQLite's wait for the disk.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from sqlalchemy import Connection

from bench.table import show
from bench.timing import Series
from builtin_tools.schedule.claims import ClaimedInstant, InstantOutcome, finish, start
from builtin_tools.schedule.job_rows import StoredJob
from builtin_tools.schedule.store import JobStore
from builtin_tools.schedule.triggers.trigger import IntervalTrigger
from builtin_tools.schedule.triggers.wall_time import instant_of
from engine.contract.scheduler import InstantState, JobAction, JobRequest, JobState
from engine.contract.turn import Turn

SIZES = (1_000, 10_000, 100_000)
DUE = 10
DAY = 86_400_000  # milliseconds
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class BenchClock:
    """A clock that the benchmark moves."""

    time: datetime = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


class JobHome:
    """A database of daily jobs whose instants are spread evenly over the day."""

    def __init__(self, folder: Path, size: int) -> None:
        self.clock = BenchClock()
        self.store = JobStore.open(folder / f"{size}.db", self.clock)
        self.step = DAY // size
        self.store.add_all([self._job(number) for number in range(size)])

    def _job(self, number: int) -> StoredJob:
        created = instant_of(START)
        first = created + (number + 1) * self.step
        request = JobRequest(f"job {number}", "every day", JobAction("tool", "look"), "UTC")
        trigger = IntervalTrigger(DAY, first - DAY, "UTC")
        active = JobState.ACTIVE
        return StoredJob(f"{number:06}", Turn(), request, trigger, active, "", created, first, None, created)

    def advance(self) -> None:
        """Move the clock so that ten jobs become due."""
        self.clock.time += timedelta(milliseconds=DUE * self.step)

    def claim(self) -> list[ClaimedInstant]:
        return self.store.step("bench", DUE, None).claimed

    def end(self, claimed: list[ClaimedInstant]) -> None:
        """Record that instants began and ended, in one transaction each for all of them, as a worker does."""
        done = InstantOutcome(InstantState.DONE)

        def begin_all(connection: Connection, now: int) -> None:
            for each in claimed:
                start(connection, each, "bench", now, repeatable=True)

        def end_all(connection: Connection, now: int) -> None:
            for each in claimed:
                finish(connection, each, "bench", done, now)

        self.store.apply([begin_all])
        self.store.apply([end_all])


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print a table, and return its rows, with times in milliseconds."""
    times: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="knackbox-jobs-") as temporary:
        homes = {size: JobHome(Path(temporary), size) for size in SIZES}
        for _ in range(rounds):
            for size, home in homes.items():
                home.advance()
                claimed = _timed(times.setdefault(("claim", size), []), home.claim)
                if len(claimed) != DUE:
                    raise RuntimeError(f"{len(claimed)} instants were claimed instead of {DUE}")
                _timed(times.setdefault(("end", size), []), partial(home.end, claimed))
                _timed(times.setdefault(("idle", size), []), home.claim)
        for home in homes.values():
            home.store.close()
    rows = []
    for what in ("claim", "end", "idle"):
        made = [Series(what, f"{size} jobs", tuple(times[what, size])) for size in SIZES]
        rows += [{"what": "jobs", **each.as_dict(), "ratio": each.p50 / made[0].p50} for each in made]
    title = f"One look at the jobs when {DUE} are due, milliseconds"
    show(console, rows, "jobs", title, "code", "p50_ms", "p95_ms", "ratio", ratio=f"to {SIZES[0]} jobs")
    return rows


def _timed(into: list[float], work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    found = work()
    into.append((time.perf_counter() - began) * 1e3)
    return found
