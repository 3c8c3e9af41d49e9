"""`manage_tasks`: creates and manages jobs, which run by the clock."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.schedule.service import MOST_NAME, MOST_TEXT, check_action
from engine.contract.context import CallContext, Produced
from engine.contract.project_lookup import ProjectLookup
from engine.contract.scheduler import (
    ActionKind,
    JobAction,
    JobInstant,
    JobLimits,
    JobRequest,
    Misfire,
    ScheduledJob,
    Scheduler,
)
from engine.contract.spec import Annotations
from engine.dispatch.refusals import not_configured, wrong_arguments
from engine.registry.decorate import tool
from engine.turn.discovery import Discovery

Action = Literal["create", "list", "show", "pause", "resume", "run_now", "delete", "history"]
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Text = Annotated[str, Field(max_length=MOST_TEXT)]
_SHOWN = 300  # characters of a result in a list


class InstantOutput(TypedDict):
    """One time at which a job ran or should have run.

    Attributes:
        at: UTC, ISO 8601.
        state: due, claimed (running), done, failed, missed, or unknown (interrupted; it may have had an effect).
        reason: Why it failed, was missed or is unknown.
        result: The beginning of the result.
    """

    at: str
    state: str
    attempts: int
    reason: str
    result: str


class JobOutput(TypedDict):
    """A job.

    Attributes:
        schedule: As it was given.
        meaning: What it was understood as.
        next_run: In the time zone of the job, ISO 8601; null if it will not run by itself.
        does: What it does.
        why: Why it is paused or has ended.
        last: Its latest time; null if it never ran.
        unknown: How many of its runs were interrupted and may have had an effect.
        project: The id of its project; "" for none.
    """

    id: str
    name: str
    state: str
    schedule: str
    meaning: str
    next_run: str | None
    does: str
    why: str
    runs: int
    last: InstantOutput | None
    unknown: int
    project: str


@tool(
    category="schedule",
    annotations=Annotations(),
    side_effects=("schedule_write",),
    required_permission="user",
    private_arguments=("message", "arguments"),
    short_description="Do something later or again and again: reminders, daily reports, regular checks.",
)
async def manage_tasks(
    ctx: CallContext,
    action: Action,
    *,
    id: str = "",  # noqa: A002 -- the shortest name for models
    name: Name | None = None,
    schedule: Annotated[str, Field(max_length=200)] = "",
    message: Text = "",
    tool: str = "",
    skill: str = "",
    arguments: dict[str, Any] | None = None,
    time_zone: str = "",
    misfire: Misfire = "once",
    jitter_seconds: Annotated[float, Field(ge=0, le=86_400)] = 0.0,
    retries: Annotated[int, Field(ge=0, le=10)] = 3,
    max_runs: Annotated[int, Field(ge=0)] = 0,
    max_tokens: Annotated[int, Field(ge=0)] = 0,
    project: str = "",
) -> Produced[JobOutput | list[JobOutput] | list[InstantOutput]]:
    """Schedule jobs that run later, by the clock, without the user: once or repeatedly.

    Use it when the user asks for something at a time ("remind me at 6", "every weekday at 9 summarize my mail", "check
    the server every 15 minutes"). A job does one of three things: it sends a `message` to you, which you then work on
    with your tools as if the user had sent it; it calls a `tool`; or it calls a `skill`. Prefer a tool or skill if one
    call with fixed arguments is enough, because it costs no tokens. Write a message so that it can be understood
    without this conversation. A job has the rights that you have now, at most. Calls that need a person's approval fail
    if nobody can be asked.

    Jobs run while `knackbox serve`, `mcp` or `work` runs. Tell the user the `next_run` from the result, and check with
    `list` before you create a job that may exist already.

    create: needs name, schedule, and message, tool or skill. list: all jobs of the user. show: one job. pause and
    resume: stop and continue it. run_now: run it once at once. delete: remove it with its history. history: its latest
    times, newest first.

    Args:
        action: What to do.
        id: The id of the job. Required except for create and list.
        name: A short name for the job, such as "morning report".
        schedule: "every weekday at 9", "every 15 minutes", "every month on the 1st at 8:30", "in 20 minutes",
            "tomorrow at 9:00", a time in ISO 8601, or cron fields ("0 9 * * 1-5"; with six fields, the first is the
            second).
        message: What to do, as a message to you.
        tool: The name of a tool to call.
        skill: The name of a skill to call.
        arguments: The arguments of the tool or skill.
        time_zone: The zone of the schedule, such as Europe/Berlin. Leave it out for the user's own.
        misfire: What to do about times that passed while nothing ran: `once` runs the latest, `all` runs each, `none`
            runs none.
        jitter_seconds: Begin each run up to this many seconds late, to spread load.
        retries: How often a run is repeated after a temporary failure, if that is safe.
        max_runs: Pause the job after so many runs; 0 for no limit.
        max_tokens: Pause the job after so many tokens in all; 0 for no limit.
        project: The id or name of the project that the job belongs to, if any.
    """
    scheduler = ctx.scheduler
    if scheduler is None:
        raise not_configured("There is no scheduler in this configuration.")
    if action == "create":
        request = JobRequest(
            name=_required(name, "name"),
            schedule=_required(schedule, "schedule"),
            action=_action(message, tool, skill, arguments),
            time_zone=time_zone,
            misfire=misfire,
            jitter_s=jitter_seconds,
            retries=retries,
            limits=JobLimits(runs=max_runs, tokens=max_tokens),
            project=await ctx.need(ProjectLookup).id_of(ctx.user, project) if project else "",
        )
        await check_action(request.action, ctx.turn, ctx.need(Discovery).describe)
        job = await scheduler.create(request)
        return Produced(job_output(job), f"Created job {job.id}: {_line(job)}", (f"created:job {job.id}",))
    if action == "list":
        jobs = await scheduler.jobs()
        text = "\n".join(f"{job.id}: {_line(job)}" for job in jobs) or "There are no jobs."
        return Produced([job_output(job) for job in jobs], text)
    return await _act_on(scheduler, action, _required(id, "id"))


async def _act_on(
    scheduler: Scheduler, action: Action, job_id: str
) -> Produced[JobOutput | list[JobOutput] | list[InstantOutput]]:
    """Do something with one job."""
    match action:
        case "history":
            found = await scheduler.history(job_id)
            text = "\n".join(_instant_line(each) for each in found) or "It has not run yet."
            return Produced([instant_output(each) for each in found], text)
        case "run_now":
            await scheduler.run_now(job_id)
            job, said = await scheduler.job(job_id), "It runs as soon as a worker is free: "
        case "delete":
            job, said = await scheduler.job(job_id), "Deleted "
            await scheduler.delete(job_id)
        case "pause":
            job, said = await scheduler.pause(job_id), "Paused "
        case "resume":
            job, said = await scheduler.resume(job_id), "Resumed "
        case _:
            job, said = await scheduler.job(job_id), ""
    effects = () if action == "show" else (f"{action}:job {job_id}",)
    return Produced(job_output(job), f"{said}{job.id}: {_line(job)}", effects)


def job_output(job: ScheduledJob) -> JobOutput:
    """Return a job as a JSON object."""
    return {
        "id": job.id,
        "name": job.request.name,
        "state": job.state.value,
        "schedule": job.request.schedule,
        "meaning": job.meaning,
        "next_run": None if job.next_run is None else job.next_run.isoformat(),
        "does": what_it_does(job.request.action),
        "why": job.why,
        "runs": job.runs,
        "last": None if job.last is None else instant_output(job.last),
        "unknown": job.unknown,
        "project": job.request.project,
    }


def instant_output(instant: JobInstant) -> InstantOutput:
    """Return an instant as a JSON object."""
    return {
        "at": instant.at.isoformat(timespec="seconds"),
        "state": instant.state.value,
        "attempts": instant.attempts,
        "reason": instant.reason,
        "result": instant.text[:_SHOWN],
    }


def what_it_does(action: JobAction) -> str:
    """Return a phrase that says what a job does."""
    if action.kind == "message":
        return f"message: {action.message[:_SHOWN]}"
    return f"{action.kind} {action.target}"


def _action(message: str, tool: str, skill: str, arguments: dict[str, Any] | None) -> JobAction:
    given: list[tuple[ActionKind, str]] = [("message", message), ("tool", tool), ("skill", skill)]
    chosen = [(kind, value) for kind, value in given if value]
    if len(chosen) != 1:
        raise wrong_arguments("Give exactly one of `message`, `tool` and `skill`: it is what the job does.")
    kind, value = chosen[0]
    if kind == "message":
        if arguments:
            raise wrong_arguments("`arguments` are for a tool or a skill. Put everything into the message.")
        return JobAction("message", message=value)
    return JobAction(kind, value, arguments or {})


def _required(value: str | None, what: str) -> str:
    if not value:
        raise wrong_arguments(f"`{what}` is missing.")
    return value


def _line(job: ScheduledJob) -> str:
    when = f"next run {job.next_run:%a %Y-%m-%d %H:%M:%S %Z}" if job.next_run is not None else f"{job.state}: {job.why}"
    last = "" if job.last is None else f"; last: {_instant_line(job.last)}"
    unknown = f"; {job.unknown} runs were interrupted and may have had an effect, see `history`" if job.unknown else ""
    return f"{job.request.name} ({job.meaning}), {what_it_does(job.request.action)[:80]}; {when}{last}{unknown}"


def _instant_line(instant: JobInstant) -> str:
    detail = instant.reason or " ".join(instant.text.split())[:80]
    return f"{instant.at:%Y-%m-%d %H:%M:%S} UTC {instant.state}" + (f" ({detail})" if detail else "")
