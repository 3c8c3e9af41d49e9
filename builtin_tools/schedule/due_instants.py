"""Gives instants their rows when their time has come, in the transaction that moves the job to its next instant."""

import hashlib
from collections import Counter
from typing import Any

from sqlalchemy import Connection, func, select, update

from builtin_tools.schedule.job_rows import StoredJob, job_of_row
from builtin_tools.schedule.retention import TIDY, delete_old
from builtin_tools.schedule.tables import CLAIMED, CLOCK, DUE, INSTANTS, JOBS
from builtin_tools.schedule.triggers.wall_time import SECOND
from engine.contract.scheduler import InstantState, JobState
from engine.stores.records import Records

GRACE = 60 * SECOND  # an instant that is older than this when it gets its row, or when it is claimed, was missed
MOST_JOBS = 50  # in one transaction, so that other processes do not wait long
MOST_INSTANTS = 500  # of one job in one transaction
FINISHED = "its schedule has ended"


def add_due_instants(connection: Connection, records: Records, now: int) -> int:
    """Add rows for the instants up to now, and return how many were added.

    Of the instants that were missed, some become due, as the job's policy says, and the others get the state MISSED. If
    the result is not 0, there may be more instants, so call again.
    """
    waiting = JOBS.c.next_at.is_not(None) & (JOBS.c.next_at <= now)
    rows = connection.execute(select(JOBS).where(waiting).order_by(JOBS.c.next_at).limit(MOST_JOBS)).all()
    added: list[dict[str, Any]] = []
    for row in rows:
        job = job_of_row(row)
        found, following = _pending(job, now)
        added += found
        changes: dict[str, Any] = {"next_at": following}
        if following is None:
            changes |= {"state": JobState.ENDED.value, "why": FINISHED}
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(changes))
    if added:
        # After the clock was set back, some instants have their rows already.
        connection.execute(records.insert(INSTANTS).on_conflict_do_nothing(), added)
        for job_id, count in Counter(each["job"] for each in added).items():
            update_ready(connection, job_id)
            if count >= TIDY:
                delete_old(connection, job_id)
        note_latest(connection, records, now)
    return len(added)


def _pending(job: StoredJob, now: int) -> tuple[list[dict[str, Any]], int | None]:
    """Return the rows of a job's instants up to now, and the instant after them."""
    found: list[dict[str, Any]] = []
    at = job.next_at
    while at is not None and at <= now and len(found) < MOST_INSTANTS:
        following = job.trigger.next_after(at)
        superseded = following is not None and following <= now
        late = at < now - GRACE
        missed = late and (job.request.misfire == "none" or (job.request.misfire == "once" and superseded))
        found.append(instant_row(job, at, InstantState.MISSED if missed else InstantState.DUE, now))
        at = following
    return found, at


def instant_row(job: StoredJob, at: int, state: InstantState, now: int, *, manual: bool = False) -> dict[str, Any]:
    """Return the row of an instant that has just got its row."""
    missed = state is InstantState.MISSED
    return {
        "job": job.id,
        "instant": at,
        "state": state.value,
        "manual": manual,
        "due_at": now if manual else at + _delay(job, at),
        "attempts": 0,
        "deaths": 0,
        "worker": "",
        "repeatable": False,
        "started": None,
        "ended": now if missed else None,
        "reason": "nothing ran at this time" if missed else "",
        "text": "",
        "tokens": 0,
    }


def _delay(job: StoredJob, at: int) -> int:
    """Return the jitter of an instant in milliseconds. It depends only on the job and the instant."""
    if not job.jitter:
        return 0
    drawn = int.from_bytes(hashlib.sha256(f"{job.id} {at}".encode()).digest()[:8])
    return drawn % (job.jitter + 1)


def update_ready(connection: Connection, job_id: str) -> None:
    """Compute `ready_at` of a job again, after the rows of its instants have changed."""
    of_job = INSTANTS.c.job == job_id
    claimed = select(INSTANTS.c.job).where(CLAIMED & of_job).exists()
    earliest = select(func.min(INSTANTS.c.due_at)).where(DUE & of_job & ~claimed).scalar_subquery()
    connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(ready_at=earliest))


def note_latest(connection: Connection, records: Records, now: int) -> None:
    """Remember up to which time instants have got their rows."""
    new = records.insert(CLOCK).values(id=1, latest=now)
    connection.execute(
        new.on_conflict_do_update(index_elements=[CLOCK.c.id], set_={"latest": func.max(CLOCK.c.latest, now)})
    )
