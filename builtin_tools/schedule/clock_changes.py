"""Handles a clock that was set back: instants that have not run and whose time has not come after all lose their rows.

Without this, a clock that was far ahead for a moment would silence every job until that time really comes. Instants
that have run keep their rows, so they do not run again.
"""

from sqlalchemy import Connection, delete, select, update

from builtin_tools.schedule.due_instants import FINISHED, GRACE, update_ready
from builtin_tools.schedule.job_rows import job_of_row
from builtin_tools.schedule.tables import CLOCK, INSTANTS, JOBS
from builtin_tools.schedule.triggers.wall_time import SECOND
from engine.contract.scheduler import InstantState, JobState

TOLERANCE = 5 * SECOND  # smaller changes are corrections of a running clock; instants then begin this much early


def clock_was_set_back(connection: Connection, now: int) -> bool:
    """Return whether instants have got rows whose time has not come."""
    latest = connection.execute(select(CLOCK.c.latest)).scalar()
    return latest is not None and latest > now + TOLERANCE


def follow_clock_back(connection: Connection, now: int) -> None:
    """Remove the rows of instants that have not run and are ahead, or late by less than `GRACE`.

    They are added anew when their time comes.
    """
    horizon = now - GRACE
    ahead = INSTANTS.c.instant > horizon
    jobs = connection.execute(select(INSTANTS.c.job).where(ahead & ~INSTANTS.c.manual).distinct()).scalars().all()
    not_run = INSTANTS.c.state.in_((InstantState.DUE.value, InstantState.MISSED.value)) & (INSTANTS.c.attempts == 0)
    connection.execute(delete(INSTANTS).where(ahead & not_run & ~INSTANTS.c.manual))
    for job_id in jobs:
        row = connection.execute(select(JOBS).where(JOBS.c.id == job_id)).one_or_none()
        if row is None:
            continue
        job = job_of_row(row)
        finished = job.state is JobState.ENDED and job.why == FINISHED
        if job.state is JobState.ACTIVE or finished:
            at = job.trigger.next_after(max(horizon, job.settled))
            if at is not None:
                changes = {"next_at": at, "state": JobState.ACTIVE.value, "why": ""}
                connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(changes))
        update_ready(connection, job_id)
    connection.execute(update(CLOCK).values(latest=now))
