"""Claims instants for a worker, and records how they end. At most one instant of a job is claimed at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, update

from builtin_tools.schedule.due_instants import GRACE, update_ready
from builtin_tools.schedule.job_rows import StoredJob, job_of_row
from builtin_tools.schedule.retention import TIDY, delete_old
from builtin_tools.schedule.tables import CLAIMED, DUE, INSTANTS, JOBS
from engine.contract.scheduler import InstantState, JobState

MOST_DEATHS = 3  # an instant whose worker ended this often is not repeated any more
MOST_TEXT = 4_000  # characters of a result that are kept


@dataclass(frozen=True, slots=True)
class ClaimedInstant:
    """An instant that belongs to a worker.

    Attributes:
        attempts: How many attempts have begun before.
    """

    job: StoredJob
    instant: int
    attempts: int

    @property
    def call_id(self) -> str:
        return f"job-{self.job.id}-{self.instant}-{self.attempts + 1}"


@dataclass(frozen=True, slots=True)
class InstantOutcome:
    """How an attempt ended.

    Attributes:
        retry_at: For an instant that becomes due again, when.
    """

    state: InstantState
    text: str = ""
    reason: str = ""
    tokens: int = 0
    retry_at: int = 0


def claim(connection: Connection, worker: str, now: int, limit: int) -> list[ClaimedInstant]:
    """Claim up to `limit` due instants of different jobs. Those that are too late by the job's policy become MISSED."""
    ready = JOBS.c.ready_at.is_not(None) & (JOBS.c.ready_at <= now)
    rows = connection.execute(select(JOBS).where(ready).order_by(JOBS.c.ready_at).limit(limit)).all()
    claimed = []
    for row in rows:
        job = job_of_row(row)
        _skip_late(connection, job, now)
        found = connection.execute(
            select(INSTANTS)
            .where(DUE & (INSTANTS.c.job == job.id) & (INSTANTS.c.due_at <= now))
            .order_by(INSTANTS.c.due_at, INSTANTS.c.instant)
            .limit(1)
        ).one_or_none()
        if found is not None:
            connection.execute(
                update(INSTANTS)
                .where((INSTANTS.c.job == job.id) & (INSTANTS.c.instant == found.instant))
                .values(state=InstantState.CLAIMED.value, worker=worker, started=None, repeatable=False)
            )
            claimed.append(ClaimedInstant(job, found.instant, found.attempts))
        update_ready(connection, job.id)
    return claimed


def _skip_late(connection: Connection, job: StoredJob, now: int) -> None:
    """Mark due instants as missed that waited too long for a worker, unless the policy runs all of them."""
    if job.request.misfire == "all":
        return
    fresh = (
        DUE & (INSTANTS.c.job == job.id) & ~INSTANTS.c.manual & (INSTANTS.c.attempts == 0) & (INSTANTS.c.deaths == 0)
    )
    late = fresh & (INSTANTS.c.due_at < now - GRACE)
    if job.request.misfire == "once":
        latest = select(func.max(INSTANTS.c.instant)).where(fresh).scalar_subquery()
        late &= INSTANTS.c.instant < latest
    missed = {"state": InstantState.MISSED.value, "ended": now, "reason": "no worker was free in time"}
    connection.execute(update(INSTANTS).where(late).values(missed))


def start(connection: Connection, claimed: ClaimedInstant, worker: str, now: int, *, repeatable: bool) -> bool:
    """Record that an attempt begins. Return False if the instant does not belong to the worker any more.

    Args:
        repeatable: Whether the attempt may be repeated if its worker ends before it does.
    """
    begun = {"started": now, "attempts": claimed.attempts + 1, "repeatable": repeatable}
    return connection.execute(update(INSTANTS).where(_held(claimed, worker)).values(begun)).rowcount == 1


def finish(connection: Connection, claimed: ClaimedInstant, worker: str, outcome: InstantOutcome, now: int) -> bool:
    """Record how an attempt ended. Return False if the instant does not belong to the worker any more."""
    again = outcome.state is InstantState.DUE
    ended: dict[str, Any] = {
        "state": outcome.state.value,
        "worker": "",
        "reason": outcome.reason,
        "text": outcome.text[:MOST_TEXT],
        "tokens": INSTANTS.c.tokens + outcome.tokens,
        "ended": None if again else now,
    }
    if again:
        ended["due_at"] = outcome.retry_at
    if connection.execute(update(INSTANTS).where(_held(claimed, worker)).values(ended)).rowcount != 1:
        return False
    _spend(connection, claimed.job.id, outcome, now)
    update_ready(connection, claimed.job.id)
    return True


def _spend(connection: Connection, job_id: str, outcome: InstantOutcome, now: int) -> None:
    """Charge an attempt to the budget of its job, and pause the job when the budget is used up."""
    row = connection.execute(select(JOBS).where(JOBS.c.id == job_id)).one_or_none()
    if row is None:
        return  # deleted while it ran
    over = outcome.state is not InstantState.DUE
    failed = outcome.state in (InstantState.FAILED, InstantState.UNKNOWN)
    runs, tokens = row.runs + over, row.tokens + outcome.tokens
    failures = (row.failures + 1 if failed else 0) if over else row.failures
    values = {"runs": runs, "tokens": tokens, "failures": failures}
    connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(values))
    limits = job_of_row(row).request.limits
    spent = [
        text
        for limit, used, text in (
            (limits.runs, runs, f"its budget of {limits.runs} runs is used up"),
            (limits.tokens, tokens, f"its budget of {limits.tokens} tokens is used up"),
            (limits.failures, failures, f"{failures} runs failed one after the other"),
        )
        if limit and used >= limit
    ]
    if spent and row.state == JobState.ACTIVE.value:
        pause(connection, job_id, spent[0], now)
    if over and runs % TIDY == 0:
        delete_old(connection, job_id)


def pause(connection: Connection, job_id: str, why: str, now: int) -> None:
    """Pause a job. Its due instants become MISSED, except those that were requested."""
    connection.execute(
        update(JOBS).where(JOBS.c.id == job_id).values(state=JobState.PAUSED.value, why=why, next_at=None)
    )
    missed = {"state": InstantState.MISSED.value, "ended": now, "reason": f"the job was paused: {why}"}
    connection.execute(update(INSTANTS).where(DUE & (INSTANTS.c.job == job_id) & ~INSTANTS.c.manual).values(missed))
    update_ready(connection, job_id)


def release_dead(connection: Connection, is_running: Callable[[str], bool], now: int) -> list[tuple[str, int]]:
    """Take the instants of workers that have ended away from them, and return (job, instant) of each UNKNOWN one.

    An instant whose attempt had not begun, or may be repeated, becomes due again. Any other becomes UNKNOWN.
    """
    workers = connection.execute(select(INSTANTS.c.worker).where(CLAIMED).distinct()).scalars().all()
    dead = [each for each in workers if not is_running(each)]
    unknown = []
    for row in connection.execute(select(INSTANTS).where(CLAIMED & INSTANTS.c.worker.in_(dead))).all():
        begun = row.started is not None
        again = not begun or (row.repeatable and row.deaths + 1 < MOST_DEATHS)
        values: dict[str, Any] = {"worker": "", "deaths": row.deaths + begun}
        if again:
            values |= {"state": InstantState.DUE.value}
            values |= {"reason": "its worker ended, so it is run again"} if begun else {}
        else:
            why = "its worker ended again and again" if row.repeatable else "its worker ended while it ran"
            values |= {"state": InstantState.UNKNOWN.value, "ended": now, "reason": f"{why}; it may have had an effect"}
            unknown.append((row.job, row.instant))
        connection.execute(
            update(INSTANTS).where((INSTANTS.c.job == row.job) & (INSTANTS.c.instant == row.instant)).values(values)
        )
        if not again:
            _spend(connection, row.job, InstantOutcome(InstantState.UNKNOWN), now)
        update_ready(connection, row.job)
    return unknown


def _held(claimed: ClaimedInstant, worker: str) -> Any:
    """Return the condition that selects an instant as long as it belongs to the worker."""
    one = (INSTANTS.c.job == claimed.job.id) & (INSTANTS.c.instant == claimed.instant)
    return one & (INSTANTS.c.worker == worker) & CLAIMED
