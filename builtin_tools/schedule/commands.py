"""Add, list, pause and delete jobs, which run by the clock.

The commands `knackbox jobs …`, for people. Entry point of the group ``knackbox.commands``.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from builtin_tools.schedule.manage_tasks import instant_output, job_output
from builtin_tools.schedule.service import ScheduleService, check_action
from builtin_tools.schedule.store import JobStore, UnknownJob
from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.contract.project_lookup import ProjectLookup
from engine.contract.scheduler import ActionKind, JobAction, JobLimits, JobRequest, Misfire, ScheduledJob
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.stores.engine_lock import EngineLock

T = TypeVar("T")
LOCAL = Turn().user
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job, or its name if no other has it.")]
User = Annotated[str, typer.Option("--user", help="The user of the new job; the default is this machine's user.")]
Only = Annotated[str | None, typer.Option("--user", help="Only the jobs of this user.")]

app = typer.Typer(
    help="Jobs, which run by the clock: add, list, show, history, pause, resume, run, delete.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A short name for the job.")],
    schedule: Annotated[
        str, typer.Argument(help="'every weekday at 9', 'every 15m', 'in 20 minutes', ISO 8601, or cron fields.")
    ],
    *,
    message: Annotated[str, typer.Option("--message", help="Send this message to the loop.")] = "",
    tool: Annotated[str, typer.Option("--tool", help="Call this tool.")] = "",
    skill: Annotated[str, typer.Option("--skill", help="Call this skill.")] = "",
    arguments: Annotated[str, typer.Option("--arguments", help="The arguments of the tool or skill, as JSON.")] = "{}",
    time_zone: Annotated[
        str, typer.Option("--time-zone", help="The zone of the schedule, such as Europe/Berlin.")
    ] = "",
    misfire: Annotated[
        Misfire, typer.Option("--misfire", help="What to run of the times that passed while nothing ran.")
    ] = "once",
    jitter: Annotated[float, typer.Option("--jitter", min=0, help="Begin up to this many seconds late.")] = 0.0,
    retries: Annotated[int, typer.Option("--retries", min=0, help="How often a temporary failure is retried.")] = 3,
    max_runs: Annotated[int, typer.Option("--max-runs", min=0, help="Pause after so many runs; 0 for no limit.")] = 0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=0, help="Pause after so many tokens in all.")] = 0,
    project: Annotated[str, typer.Option("--project", help="The project it belongs to, by id or name.")] = "",
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Add a job, and print its id."""
    given: list[tuple[ActionKind, str]] = [("message", message), ("tool", tool), ("skill", skill)]
    chosen = [(kind, value) for kind, value in given if value]
    if len(chosen) != 1:
        fail("give exactly one of --message, --tool and --skill.", Exit.USAGE)
    kind, value = chosen[0]
    action = JobAction(kind, message=value) if kind == "message" else JobAction(kind, value, _object(arguments))
    limits = JobLimits(runs=max_runs, tokens=max_tokens)
    request = JobRequest(name, schedule, action, time_zone, misfire, jitter, retries, limits)
    turn = Turn(user=user)

    async def work(engine: Engine) -> ScheduledJob:
        await check_action(action, turn, engine.describe_tool)
        belongs_to = await engine.need(ProjectLookup).id_of(user, project) if project else ""
        return await engine.need(ScheduleService).create(turn, replace(request, project=belongs_to))

    with _reported(), working("adding") as spinner:
        job = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(job_output(job))
        return
    emit(job.id)
    say(f"added {name}: {job.meaning}; next run {_when(job)}.")


@app.command("list")
def list_(ctx: typer.Context, user: Only = None, as_json: Json = False) -> None:
    """List the jobs, those with the earliest next run first."""

    async def work(engine: Engine) -> tuple[list[ScheduledJob], bool]:
        jobs = await asyncio.to_thread(_store(engine).jobs, user)
        return jobs, await asyncio.to_thread(_worker_runs, engine)

    with working("reading") as spinner:
        jobs, worker = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json({"jobs": [{"user": job.user, **job_output(job)} for job in jobs], "worker": worker})
        return
    if jobs:
        rows = [
            (job.id, job.user, job.request.name, job.request.schedule, _when(job), job.last.state if job.last else "-")
            for job in jobs
        ]
        print_table(("id", "user", "name", "schedule", "next run", "last"), rows)
    else:
        say("there are no jobs.")
    for job in jobs:
        if job.unknown:
            say(f"{job.request.name}: {job.unknown} runs were interrupted. See knackbox jobs history {job.id}.")
    if not worker:
        say("no process runs jobs now. Start knackbox work, serve or mcp.")


@app.command()
def show(ctx: typer.Context, job_id: JobId, as_json: Json = False) -> None:
    """Show a job and its latest run."""
    job = _with_job(ctx, job_id, lambda store, found: store.view(None, found))
    shown = {"user": job.user, "agent": job.agent, **job_output(job), "arguments": dict(job.request.action.arguments)}
    if wants_json(ctx, as_json):
        emit_json(shown)
        return
    for key, value in shown.items():
        emit(f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


@app.command()
def history(
    ctx: typer.Context,
    job_id: JobId,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number of runs to show.")] = 20,
    as_json: Json = False,
) -> None:
    """List the times at which a job ran or should have run, newest first."""
    found = _with_job(ctx, job_id, lambda store, found: store.history(None, found, limit))
    rows = [instant_output(each) for each in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif rows:
        print_table(
            ("at (UTC)", "state", "attempts", "reason", "result"),
            [
                (row["at"], row["state"], str(row["attempts"]), row["reason"], " ".join(row["result"].split())[:80])
                for row in rows
            ],
        )
    else:
        say("it has not run yet.")


@app.command()
def pause(ctx: typer.Context, job_id: JobId) -> None:
    """Stop a job until it is resumed. A run that has begun continues."""
    _with_job(ctx, job_id, lambda store, found: store.pause(None, found, "on request"))
    say(f"paused {job_id}.")


@app.command()
def resume(ctx: typer.Context, job_id: JobId) -> None:
    """Continue a paused job at its next time, with a new budget."""

    def change(store: JobStore, found: str) -> ScheduledJob:
        store.resume(None, found)
        return store.view(None, found)

    say(f"{job_id}: next run {_when(_with_job(ctx, job_id, change))}.")


@app.command()
def run(ctx: typer.Context, job_id: JobId) -> None:
    """Run a job once, as soon as a worker is free."""
    _with_job(ctx, job_id, lambda store, found: store.run_now(None, found))
    say(f"{job_id} runs as soon as a worker is free. knackbox jobs history {job_id} shows the result.")


@app.command()
def delete(ctx: typer.Context, job_id: JobId) -> None:
    """Delete a job and its history."""
    _with_job(ctx, job_id, lambda store, found: store.delete(None, found))
    say(f"deleted {job_id}.")


def _with_job(ctx: typer.Context, given: str, work: Callable[[JobStore, str], T]) -> T:
    """Open an engine, and call a function with the store and the id of a job in a thread.

    Args:
        ctx: The context of the command.
        given: The id or the name of the job.
        work: The function.
    """

    def on_job(store: JobStore) -> T:
        named = [job.id for job in store.jobs(None) if given in (job.id, job.request.name)]
        if len(named) > 1 and given not in named:
            fail(f"several jobs are called {given}: {', '.join(named)}. Give one of these ids.", Exit.USAGE)
        return work(store, given if given in named or not named else named[0])

    async def in_thread(engine: Engine) -> T:
        return await asyncio.to_thread(on_job, _store(engine))

    with _reported(), working("reading") as spinner:
        return with_engine(ctx, in_thread, spinner)


@contextmanager
def _reported() -> Iterator[None]:
    """End the command with a message if the job is unknown or the request is refused."""
    try:
        yield
    except UnknownJob as error:
        fail(f"there is no job {error}. knackbox jobs list shows all jobs.", Exit.USAGE)
    except ToolFailure as error:
        fail(str(error), Exit.USAGE)


def _store(engine: Engine) -> JobStore:
    return engine.need(ScheduleService).store


def _worker_runs(engine: Engine) -> bool:
    """Return whether a process runs jobs of this home."""
    lock = EngineLock(engine.services.home.workers)
    try:
        return bool(lock.running_others())
    finally:
        lock.close()


def _when(job: ScheduledJob) -> str:
    if job.next_run is None:
        return f"none ({job.state}: {job.why})"
    return f"{job.next_run:%a %Y-%m-%d %H:%M:%S %Z}"


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        fail(f"--arguments is not JSON ({error}).", Exit.USAGE)
    if not isinstance(value, dict):
        fail("--arguments must be a JSON object.", Exit.USAGE)
    return value
