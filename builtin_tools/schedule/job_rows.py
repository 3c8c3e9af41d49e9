"""Converts jobs and instants to rows and back."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from builtin_tools.schedule.triggers.trigger import AnyTrigger, trigger_of_json, trigger_to_json
from builtin_tools.schedule.triggers.wall_time import SECOND, moment_of
from engine.contract.scheduler import InstantState, JobInstant, JobRequest, JobState, ScheduledJob
from engine.contract.turn import Turn
from engine.times.time_zones import known_zone

_TURN = TypeAdapter(Turn)
_REQUEST = TypeAdapter(JobRequest)
_TRIGGER = TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A row of the table of jobs. Times are instants.

    Attributes:
        turn: The turn that created the job, whose rights it has.
        next_at, ready_at, settled: See the table.
        failures: How many runs have failed one after the other.
    """

    id: str
    turn: Turn
    request: JobRequest
    trigger: AnyTrigger
    state: JobState
    why: str
    created: int
    next_at: int | None
    ready_at: int | None
    settled: int
    runs: int = 0
    tokens: int = 0
    failures: int = 0

    @property
    def jitter(self) -> int:
        """The largest delay of a run, in milliseconds."""
        return round(self.request.jitter_s * SECOND)


def row_of_job(job: StoredJob) -> dict[str, Any]:
    """Convert a job to a row."""
    return {
        "id": job.id,
        "user": job.turn.user,
        "turn": _TURN.dump_json(job.turn, exclude_defaults=True).decode(),
        "request": _REQUEST.dump_json(job.request).decode(),
        "trigger": _TRIGGER.dump_json(trigger_to_json(job.trigger)).decode(),
        "state": job.state.value,
        "why": job.why,
        "created": job.created,
        "next_at": job.next_at,
        "ready_at": job.ready_at,
        "settled": job.settled,
        "runs": job.runs,
        "tokens": job.tokens,
        "failures": job.failures,
    }


def job_of_row(row: Row[Any]) -> StoredJob:
    """Convert a row to a job."""
    return StoredJob(
        id=row.id,
        turn=_TURN.validate_json(row.turn),
        request=_REQUEST.validate_json(row.request),
        trigger=trigger_of_json(_TRIGGER.validate_json(row.trigger)),
        state=JobState(row.state),
        why=row.why,
        created=row.created,
        next_at=row.next_at,
        ready_at=row.ready_at,
        settled=row.settled,
        runs=row.runs,
        tokens=row.tokens,
        failures=row.failures,
    )


def instant_of_row(row: Row[Any]) -> JobInstant:
    """Convert a row to an instant."""
    return JobInstant(
        at=moment_of(row.instant),
        state=InstantState(row.state),
        manual=row.manual,
        attempts=row.attempts,
        started=None if row.started is None else moment_of(row.started),
        ended=None if row.ended is None else moment_of(row.ended),
        reason=row.reason,
        text=row.text,
        tokens=row.tokens,
    )


def scheduled_job(job: StoredJob, last: JobInstant | None = None, unknown: int = 0) -> ScheduledJob:
    """Return a job as tools see it."""
    zone = known_zone(job.trigger.zone)
    return ScheduledJob(
        id=job.id,
        user=job.turn.user,
        agent=job.turn.agent,
        request=job.request,
        meaning=job.trigger.describe(),
        state=job.state,
        created=moment_of(job.created),
        why=job.why,
        next_run=None if job.next_at is None else moment_of(job.next_at, zone),
        runs=job.runs,
        tokens=job.tokens,
        last=last,
        unknown=unknown,
    )
