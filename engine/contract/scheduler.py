"""The scheduler port: jobs, which run by the clock on behalf of their creator.

An *instant* of a job is a point in time at which it should run. Each instant has one row, with a state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

ActionKind = Literal["tool", "message", "skill"]
Misfire = Literal["once", "all", "none"]


class JobState(StrEnum):
    """The state of a job. An ended job has no further instants."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


class InstantState(StrEnum):
    """The state of one instant of a job.

    Attributes:
        DUE: It waits for a worker, or for its next attempt.
        CLAIMED: A worker is running it.
        MISSED: It was not run, because nothing ran at its time, and the job's policy does not make up for it.
        UNKNOWN: Its run was interrupted after it had begun, and cannot be repeated safely. It may have had an effect.
    """

    DUE = "due"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class JobAction:
    """What a job does.

    Attributes:
        target: The name of the tool or skill; "" for a message.
        arguments: The arguments of the tool or skill.
        message: The message to the loop; "" for a tool or skill.
    """

    kind: ActionKind
    target: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The budget of a job. When it is used up, the job is paused. 0 means no limit.

    Attributes:
        runs: The number of runs.
        tokens: The tokens of all its runs together.
        failures: The number of runs that may fail one after the other.
        run_tokens, run_s: The tokens and seconds of one run of a message, in addition to the limits of `[budget]`.
    """

    runs: int = 0
    tokens: int = 0
    failures: int = 10
    run_tokens: int = 0
    run_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to create.

    Attributes:
        schedule: Cron fields, an interval, a time in ISO 8601, or words such as ``"every weekday at 9"``.
        time_zone: The zone of the schedule; "" for the zone of the user.
        misfire: What happens to instants that passed while nothing ran. ``"once"`` runs the latest of them, ``"all"``
            runs each, ``"none"`` runs none. Those that are not run are recorded as missed.
        jitter_s: Each run begins up to this many seconds late, so that jobs do not all begin at once.
        retries: How often a run is repeated after a failure that is RETRYABLE and safe to repeat.
        project: The id of the project that the job belongs to; "" for the one of the turn, if any.
    """

    name: str
    schedule: str
    action: JobAction
    time_zone: str = ""
    misfire: Misfire = "once"
    jitter_s: float = 0.0
    retries: int = 3
    limits: JobLimits = JobLimits()
    project: str = ""


@dataclass(frozen=True, slots=True)
class JobInstant:
    """One instant of a job.

    Attributes:
        at: The instant, in UTC.
        manual: Whether the job was run on request, not by its schedule.
        attempts: How many attempts have begun.
        reason: Why it failed, was missed or is unknown; "" for a success.
        text: The result for people, cut to a few thousand characters.
    """

    at: datetime
    state: InstantState
    manual: bool = False
    attempts: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    reason: str = ""
    text: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job.

    Attributes:
        meaning: What the schedule was understood as, such as ``"cron 0 0 9 * * 1-5 (Europe/Berlin)"``.
        why: Why it is paused or has ended; "" if it is active.
        next_run: Its next instant, in the time zone of the job; None if there is none.
        runs, tokens: How much of its budget is spent.
        last: Its latest instant, if any.
        unknown: How many instants in its history are UNKNOWN.
    """

    id: str
    user: str
    agent: str
    request: JobRequest
    meaning: str
    state: JobState
    created: datetime
    why: str = ""
    next_run: datetime | None = None
    runs: int = 0
    tokens: int = 0
    last: JobInstant | None = None
    unknown: int = 0


class Scheduler(Protocol):
    """The jobs of the turn's user. A job that the turn creates has at most the turn's rights."""

    async def create(self, request: JobRequest) -> ScheduledJob:
        """Create a job.

        Raises:
            ToolFailure: The schedule is not understood, the turn may not do what the job should do, or the user has too
                many jobs (DIAGNOSTIC).
        """
        ...

    async def jobs(self) -> Sequence[ScheduledJob]:
        """Return the jobs of the user, those with the earliest next run first."""
        ...

    async def job(self, job_id: str) -> ScheduledJob:
        """Return a job.

        Raises:
            ToolFailure: The user has no such job (DIAGNOSTIC). This also applies to the following methods.
        """
        ...

    async def pause(self, job_id: str) -> ScheduledJob:
        """Stop a job until it is resumed. A run that has begun continues."""
        ...

    async def resume(self, job_id: str) -> ScheduledJob:
        """Continue a paused job at its next instant. Its budget starts again."""
        ...

    async def run_now(self, job_id: str) -> JobInstant:
        """Make a job run as soon as a worker is free, whatever its schedule."""
        ...

    async def delete(self, job_id: str) -> None:
        """Delete a job and its history. A run that has begun continues."""
        ...

    async def history(self, job_id: str, limit: int = 20) -> Sequence[JobInstant]:
        """Return the latest instants of a job, newest first."""
        ...
