"""`JobStore`: the database with all jobs and their instants (``schedule.db``), which threads and processes share.

Every commit survives a power failure: otherwise an instant could run a second time afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from builtin_tools.schedule.claims import (
    ClaimedInstant,
    claim,
    pause,
    release_dead,
)
from builtin_tools.schedule.clock_changes import clock_was_set_back, follow_clock_back
from builtin_tools.schedule.due_instants import add_due_instants, instant_row, note_latest, update_ready
from builtin_tools.schedule.job_rows import StoredJob, instant_of_row, job_of_row, row_of_job, scheduled_job
from builtin_tools.schedule.tables import CLAIMED, INSTANTS, JOBS, SCHEMA, UNKNOWN
from builtin_tools.schedule.triggers.wall_time import instant_of
from engine.contract.context import Clock
from engine.contract.scheduler import InstantState, JobInstant, JobState, ScheduledJob
from engine.stores.records import Records
from engine.stores.sqlite_file import Contents

GENERATION = "schedule"
CONTENTS = Contents(
    held="the jobs, and which of their runs have taken place",
    kept="skills, the records, events, the memory, settings and the workspace",
)


class UnknownJob(LookupError):
    """The user has no job with this id."""


class TooManyJobs(ValueError):
    """The user may not have more jobs."""


@dataclass(frozen=True, slots=True)
class WorkStep:
    """What a worker learns from one look at the database.

    Attributes:
        claimed: The instants that now belong to the worker.
        unknown: (job, instant) of the instants that became UNKNOWN.
        next_at: When to look again at the latest; None if nothing is planned.
    """

    claimed: list[ClaimedInstant]
    unknown: list[tuple[str, int]]
    next_at: int | None


class JobStore:
    """The jobs of all users. Every method blocks, and is one transaction."""

    def __init__(self, records: Records, clock: Clock) -> None:
        """Create missing tables. `close` closes the database, too."""
        self._records = records
        self._clock = clock
        records.create(SCHEMA)

    @classmethod
    def open(cls, path: Path, clock: Clock) -> "JobStore":
        """Open or create the database.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        return cls(Records.open(f"sqlite:///{path}", power_cuts=True, contents=CONTENTS), clock)

    def now(self) -> int:
        """Return the current time as an instant."""
        return instant_of(self._clock.now())

    # Jobs.

    def add(self, job: StoredJob, most: int) -> None:
        """Add a job.

        Raises:
            TooManyJobs: The user already has `most` jobs that have not ended.
        """
        with self._records.begin() as connection:
            own = (JOBS.c.user == job.turn.user) & (JOBS.c.state != JobState.ENDED.value)
            if connection.execute(select(func.count()).where(own)).scalar_one() >= most:
                raise TooManyJobs(f"{job.turn.user} already has {most} jobs.")
            connection.execute(JOBS.insert().values(row_of_job(job)))
            self._records.bump(GENERATION, connection)

    def add_all(self, jobs: Sequence[StoredJob]) -> None:
        """Add many jobs at once, without a limit."""
        with self._records.begin() as connection:
            connection.execute(JOBS.insert(), [row_of_job(each) for each in jobs])
            self._records.bump(GENERATION, connection)

    def job(self, user: str | None, job_id: str) -> StoredJob:
        """Return a job of a user; of any user for None.

        Raises:
            UnknownJob: There is no such job.
        """
        with self._records.read() as connection:
            return _found(connection, user, job_id)

    def jobs(self, user: str | None) -> list[ScheduledJob]:
        """Return the jobs of a user, or of all users for None, with their latest instants, by their next instant."""
        with self._records.read() as connection:
            chosen = select(JOBS).order_by(JOBS.c.next_at.is_(None), JOBS.c.next_at, JOBS.c.created, JOBS.c.id)
            rows = connection.execute(chosen if user is None else chosen.where(JOBS.c.user == user)).all()
            return [_view(connection, row) for row in rows]

    def view(self, user: str | None, job_id: str) -> ScheduledJob:
        """Return a job with its latest instant.

        Raises:
            UnknownJob: There is no such job.
        """
        with self._records.read() as connection:
            return _view(connection, _row(connection, user, job_id))

    def history(self, user: str | None, job_id: str, limit: int) -> list[JobInstant]:
        """Return the latest instants of a job, newest first.

        Raises:
            UnknownJob: There is no such job.
        """
        with self._records.read() as connection:
            _found(connection, user, job_id)
            return _history(connection, job_id, limit)

    def pause(self, user: str | None, job_id: str, why: str) -> StoredJob:
        """Pause a job that is active.

        Raises:
            UnknownJob: There is no such job.
        """

        def change(connection: Connection, job: StoredJob) -> None:
            if job.state is JobState.ACTIVE:
                pause(connection, job.id, why, self.now())

        return self._change(user, job_id, change)

    def resume(self, user: str | None, job_id: str) -> StoredJob:
        """Make a paused job active again, with a new budget.

        Raises:
            UnknownJob: There is no such job.
        """

        def change(connection: Connection, job: StoredJob) -> None:
            if job.state is not JobState.PAUSED:
                return
            now = self.now()
            at = job.trigger.next_after(max(now, job.settled))
            state = JobState.ENDED if at is None else JobState.ACTIVE
            why = "its time passed while it was paused" if at is None else ""
            fresh: dict[str, Any] = {"runs": 0, "tokens": 0, "failures": 0, "settled": max(now, job.settled)}
            connection.execute(
                update(JOBS).where(JOBS.c.id == job.id).values(state=state.value, why=why, next_at=at, **fresh)
            )

        return self._change(user, job_id, change)

    def run_now(self, user: str | None, job_id: str) -> int:
        """Add a due instant at the current time, and return it.

        Raises:
            UnknownJob: There is no such job.
        """
        added = 0

        def change(connection: Connection, job: StoredJob) -> None:
            nonlocal added
            added = now = self.now()
            same = select(INSTANTS.c.instant).where(INSTANTS.c.job == job.id)
            while connection.execute(same.where(INSTANTS.c.instant == added)).first() is not None:
                added += 1
            row = instant_row(job, added, InstantState.DUE, now, manual=True)
            connection.execute(INSTANTS.insert().values(row))
            update_ready(connection, job.id)
            note_latest(connection, self._records, now)

        self._change(user, job_id, change)
        return added

    def delete(self, user: str | None, job_id: str) -> None:
        """Delete a job and its instants.

        Raises:
            UnknownJob: There is no such job.
        """
        with self._records.begin() as connection:
            _found(connection, user, job_id)
            connection.execute(delete(INSTANTS).where(INSTANTS.c.job == job_id))
            connection.execute(delete(JOBS).where(JOBS.c.id == job_id))
            self._records.bump(GENERATION, connection)

    # Work.

    def step(self, worker: str, free: int, is_running: Callable[[str], bool] | None) -> WorkStep:
        """Add the instants that are due, and claim up to `free` of them.

        Args:
            worker: The id of the worker.
            free: How many instants the worker can run.
            is_running: Returns whether a worker is still running; None to trust that all are.
        """
        now = self.now()
        with self._records.read() as connection:
            back = clock_was_set_back(connection, now)
            planned = _planned(connection)
            held = is_running is not None and connection.execute(select(INSTANTS.c.job).where(CLAIMED).limit(1)).first()
        due = planned is not None and planned <= now
        if not back and not held and not (due and free):
            return WorkStep([], [], planned)
        with self._records.begin() as connection:
            if back:
                follow_clock_back(connection, now)
            unknown = release_dead(connection, is_running, now) if is_running is not None else []
            added = add_due_instants(connection, self._records, now)
            claimed = claim(connection, worker, now, free) if free > 0 else []
            return WorkStep(claimed, unknown, now if added else _planned(connection))

    def apply(self, changes: Sequence[Callable[[Connection, int], Any]]) -> list[Any]:
        """Apply changes, such as `claims.start` and `claims.finish`, in one transaction, and return their results.

        Args:
            changes: Each receives the connection and the current time.
        """
        with self._records.begin() as connection:
            now = self.now()
            return [change(connection, now) for change in changes]

    def generation(self) -> int:
        """Return a number that changes with every change that a person or a model makes. Takes microseconds."""
        return self._records.generation(GENERATION)

    def close(self) -> None:
        """Close the database."""
        self._records.close()

    def _change(self, user: str | None, job_id: str, change: Callable[[Connection, StoredJob], None]) -> StoredJob:
        with self._records.begin() as connection:
            change(connection, _found(connection, user, job_id))
            self._records.bump(GENERATION, connection)
            return _found(connection, user, job_id)


def _row(connection: Connection, user: str | None, job_id: str) -> Row[Any]:
    row = connection.execute(select(JOBS).where(JOBS.c.id == job_id)).one_or_none()
    if row is None or (user is not None and row.user != user):
        raise UnknownJob(job_id)
    return row


def _found(connection: Connection, user: str | None, job_id: str) -> StoredJob:
    return job_of_row(_row(connection, user, job_id))


def _view(connection: Connection, row: Row[Any]) -> ScheduledJob:
    unknown = select(func.count()).where(UNKNOWN & (INSTANTS.c.job == row.id))
    last = next(iter(_history(connection, row.id, 1)), None)
    return scheduled_job(job_of_row(row), last, connection.execute(unknown).scalar_one())


def _history(connection: Connection, job_id: str, limit: int) -> list[JobInstant]:
    newest = select(INSTANTS).where(INSTANTS.c.job == job_id).order_by(INSTANTS.c.instant.desc()).limit(limit)
    return [instant_of_row(row) for row in connection.execute(newest).all()]


def _planned(connection: Connection) -> int | None:
    """Return the earliest time at which an instant gets its row or may be claimed."""
    times = [
        connection.execute(select(func.min(column)).where(column.is_not(None))).scalar()
        for column in (JOBS.c.next_at, JOBS.c.ready_at)
    ]
    return min((each for each in times if each is not None), default=None)
