"""`ScheduleService`: the jobs of a home for tools and commands. `TurnScheduler` is the port for one turn."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar, get_args
from zoneinfo import ZoneInfo

from builtin_tools.schedule.job_rows import StoredJob, scheduled_job
from builtin_tools.schedule.store import JobStore, TooManyJobs, UnknownJob
from builtin_tools.schedule.tables import ID
from builtin_tools.schedule.triggers.spoken import ScheduleError, read_schedule
from builtin_tools.schedule.triggers.wall_time import SECOND, moment_of
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.scheduler import JobAction, JobInstant, JobRequest, JobState, ScheduledJob
from engine.contract.spec import Origin, PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.validate import misfit
from engine.times.time_zones import known_zone

MOST_NAME = 100
MOST_TEXT = 20_000  # characters of a message, or of arguments as JSON
MANAGING = "manage_tasks"  # the tool that jobs cannot call
_LEVELS: tuple[PermissionLevel, ...] = get_args(PermissionLevel)  # lowest first

Result = TypeVar("Result")
Describe = Callable[[str, Turn], Awaitable[ToolSpec]]


class ScheduleService:
    """Creates, changes and shows jobs. Its methods are coroutines and do not block the event loop."""

    def __init__(
        self, store: JobStore, zone_of: Callable[[str], ZoneInfo], *, most_jobs: int = 100, shortest_s: float = 1.0
    ) -> None:
        """Create the service.

        Args:
            store: The jobs.
            zone_of: Returns the time zone of a user.
            most_jobs: How many jobs a user may have that have not ended.
            shortest_s: The shortest time between two instants of a job, in seconds.
        """
        self.store = store
        self._zone_of = zone_of
        self._most_jobs = most_jobs
        self._shortest_s = shortest_s

    async def create(self, turn: Turn, request: JobRequest) -> ScheduledJob:
        """Create a job with the rights of a turn.

        Raises:
            ToolFailure: The request is invalid, or the user has too many jobs.
        """
        _check_request(request)
        zone = self._zone(turn.user, request.time_zone)
        now = self.store.now()
        try:
            trigger = read_schedule(request.schedule, moment_of(now), zone)
        except ScheduleError as error:
            raise wrong_arguments(str(error)) from error
        first = trigger.next_after(now)
        if first is None:
            raise wrong_arguments(f"The schedule {request.schedule!r} has no time in the next 50 years.")
        second = trigger.next_after(first)
        if second is not None and second - first < self._shortest_s * SECOND:
            raise wrong_arguments(f"Jobs may run every {self._shortest_s:g} s at most ([packs.schedule] shortest_s).")
        project = request.project or turn.project
        rights = replace(turn, query=None, features=frozenset(), use_tool_search_flow=False, project=project)
        job = StoredJob(
            secrets.token_hex(ID // 2),
            rights,
            replace(request, time_zone=zone.key, project=project),
            trigger,
            JobState.ACTIVE,
            "",
            created=now,
            next_at=first,
            ready_at=None,
            settled=now,
        )
        try:
            await asyncio.to_thread(self.store.add, job, self._most_jobs)
        except TooManyJobs as error:
            text = f"{error} Delete one first, or raise `most_jobs` in [packs.schedule]."
            raise refusal(text, "too_many_jobs") from error
        return scheduled_job(job)

    def port(self, turn: Turn) -> "TurnScheduler":
        """Return the jobs of a turn's user, for `CallContext.scheduler`."""
        return TurnScheduler(self, turn)

    async def aclose(self) -> None:
        """Close the database."""
        await asyncio.to_thread(self.store.close)

    def _zone(self, user: str, name: str) -> ZoneInfo:
        try:
            return known_zone(name) if name else self._zone_of(user)
        except ValueError as error:
            raise wrong_arguments(f"{error}.") from None


class TurnScheduler:
    """The jobs of one turn's user (`engine.contract.scheduler.Scheduler`).

    A turn may see, pause and delete all jobs of its user. It may run and resume only those whose rights it has.
    """

    def __init__(self, service: ScheduleService, turn: Turn) -> None:
        self._service = service
        self._store = service.store
        self._turn = turn

    async def create(self, request: JobRequest) -> ScheduledJob:
        return await self._service.create(self._turn, request)

    async def jobs(self) -> Sequence[ScheduledJob]:
        return await asyncio.to_thread(self._store.jobs, self._turn.user)

    async def job(self, job_id: str) -> ScheduledJob:
        return await self._changed(self._store.view, job_id)

    async def pause(self, job_id: str) -> ScheduledJob:
        await self._changed(self._store.pause, job_id, "on request")
        return await self.job(job_id)

    async def resume(self, job_id: str) -> ScheduledJob:
        await self._check_rights(job_id)
        await self._changed(self._store.resume, job_id)
        return await self.job(job_id)

    async def run_now(self, job_id: str) -> JobInstant:
        await self._check_rights(job_id)
        instant = await self._changed(self._store.run_now, job_id)
        found = await self.history(job_id)
        return next((each for each in found if each.at == moment_of(instant)), found[0])

    async def delete(self, job_id: str) -> None:
        await self._changed(self._store.delete, job_id)

    async def history(self, job_id: str, limit: int = 20) -> Sequence[JobInstant]:
        found: list[JobInstant] = await self._changed(self._store.history, job_id, limit)
        return found

    async def _changed(self, change: Callable[..., Result], job_id: str, *more: object) -> Result:
        try:
            return await asyncio.to_thread(change, self._turn.user, job_id, *more)
        except UnknownJob as error:
            raise _unknown(job_id) from error

    async def _check_rights(self, job_id: str) -> None:
        """Check that the turn has the rights of a job, because it makes the job run.

        Raises:
            ToolFailure: It does not (FATAL).
        """
        job = await self._changed(self._store.job, job_id)
        lower = _LEVELS.index(self._turn.permission) < _LEVELS.index(job.turn.permission)
        if job.turn.agent != self._turn.agent or lower:
            text = f"{job.turn.agent} created the job {job_id} with other rights, so only {job.turn.agent} can do this."
            raise refusal(text, "denied", FailureClass.FATAL)


async def check_action(action: JobAction, turn: Turn, describe: Describe) -> None:
    """Check that a turn may do what a job should do, and that the arguments fit.

    Args:
        action: What the job should do.
        turn: The turn that creates the job.
        describe: Returns the spec of a tool that the turn may call, and raises ToolFailure if there is none.

    Raises:
        ToolFailure: The turn may not do it, or the arguments do not fit (DIAGNOSTIC).
    """
    if action.kind == "message":
        return
    spec = await describe(action.target, turn)
    if spec.name == MANAGING:
        raise wrong_arguments("A job cannot manage jobs.")
    if action.kind == "skill" and spec.origin is Origin.STATIC:
        raise wrong_arguments(f"{spec.name} is a tool, not a skill. Use the kind `tool`.")
    wrong = misfit(dict(action.arguments), spec.parameters)
    if wrong:
        raise wrong_arguments(f"{spec.name} cannot be called with these arguments:\n{wrong}")


def _check_request(request: JobRequest) -> None:
    action = request.action
    if not request.name.strip() or len(request.name) > MOST_NAME:
        raise wrong_arguments(f"The name of a job must have 1 to {MOST_NAME} characters.")
    size = len(action.message) + len(json.dumps(dict(action.arguments), default=str))
    if size > MOST_TEXT:
        raise wrong_arguments(f"What a job does may have {MOST_TEXT} characters at most, but this has {size}.")
    if action.kind == "message" and not action.message.strip():
        raise wrong_arguments("The message is empty.")
    if action.kind != "message" and not action.target:
        raise wrong_arguments(f"The name of the {action.kind} is missing.")


def _unknown(job_id: str) -> ToolFailure:
    text = f"There is no job {job_id[:50]!r}. The action `list` shows the ids of all jobs."
    return refusal(text, "not_found")
