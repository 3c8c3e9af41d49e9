"""List, show and change projects and their tasks.

The commands `knackbox projects …`, for people. Entry point of the group ``knackbox.commands``.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

import typer

from builtin_tools.projects.project import (
    LinkKind,
    NewTask,
    Project,
    ProjectError,
    ProjectState,
    TaskState,
    renamed,
    with_changed_task,
    with_link,
    with_note,
    with_state,
    with_tasks,
    without_link,
    without_note,
)
from builtin_tools.projects.project_output import brief, project_output, project_text
from builtin_tools.projects.store import Change, ChangedProject, ProjectStore, UnknownProject
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.stores.run_journal import RunRow

T = TypeVar("T")
LOCAL = Turn().user
Named = Annotated[str, typer.Argument(metavar="PROJECT", help="The id or the name of the project.")]
Kind = Annotated[LinkKind, typer.Argument(help="run, file or skill.")]
Target = Annotated[str, typer.Argument(help="The id of the run, the path of the file, or the name of the skill.")]

app = typer.Typer(
    help="Projects: add, list, show, update, start, pause, finish, drop, delete; task, set-task; notes and links.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A short name.")],
    *,
    goal: Annotated[str, typer.Option("--goal", help="What should be reached.")] = "",
    task: Annotated[list[str] | None, typer.Option("--task", help="A task. Repeatable, in order.")] = None,
    start_now: Annotated[bool, typer.Option("--start", help="Make it the active project.")] = False,
    user: Annotated[str, typer.Option("--user", help="The user of the project; by default this machine's.")] = LOCAL,
    as_json: Json = False,
) -> None:
    """Add a project, and print its id."""

    def begin(project: Project, at: str) -> Project:
        planned = with_tasks(project, [NewTask(title) for title in task or ()], at)
        return with_state(planned, ProjectState.ACTIVE) if start_now else planned

    made = _with_store(ctx, lambda store: store.add(user, name, goal, begin))
    if wants_json(ctx, as_json):
        emit_json(project_output(made.project))
        return
    emit(made.project.id)
    _report(made)


@app.command("list")
def list_(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option("--user", help="Only the projects of this user.")] = None,
    as_json: Json = False,
) -> None:
    """List the projects, the one that was changed last first."""
    found = _with_store(ctx, lambda store: store.projects(user))
    if wants_json(ctx, as_json):
        emit_json([{"user": project.user, **brief(project)} for project in found])
        return
    if not found:
        say("there are no projects.")
        return
    rows = [(each, brief(each)) for each in found]
    print_table(
        ("id", "user", "name", "state", "done", "changed"),
        [
            (
                project.id,
                project.user,
                project.name,
                short["state"],
                f"{short['done']}/{short['tasks']}",
                short["changed"][:19],
            )
            for project, short in rows
        ],
    )


@app.command()
def show(ctx: typer.Context, project: Named, as_json: Json = False) -> None:
    """Show a project with its tasks, notes and links, and the jobs and newest runs that belong to it."""

    async def work(engine: Engine) -> tuple[Project, list[RunRow], list[tuple[str, str]]]:
        store = engine.need(ProjectStore)
        found = await asyncio.to_thread(store.find, None, project)
        runs = await asyncio.to_thread(engine.runs.of_project, found.id)
        return found, runs, await _jobs(engine, found)

    with _reported(), working("reading") as spinner:
        found, runs, jobs = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        shown = [{"id": row.id, "created": row.created, "status": row.status, "message": row.message} for row in runs]
        emit_json({**project_output(found), "runs": shown, "jobs": [{"id": job, "name": name} for job, name in jobs]})
        return
    emit(project_text(found))
    for job, name in jobs:
        emit(f"Job {job}: {name}")
    for row in runs:
        emit(f"Run {row.id}, {row.created[:19]}, {row.status}: {' '.join(row.message.split())[:60]}")


@app.command()
def update(
    ctx: typer.Context,
    project: Named,
    *,
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", help="The new goal.")] = None,
) -> None:
    """Change the name or the goal of a project."""
    _change(ctx, project, lambda found, _: renamed(found, name, goal))


@app.command()
def start(ctx: typer.Context, project: Named) -> None:
    """Make a project the active one. The one that was active is paused."""
    _change(ctx, project, lambda found, _: with_state(found, ProjectState.ACTIVE))


@app.command()
def pause(ctx: typer.Context, project: Named) -> None:
    """Pause the active project."""
    _change(ctx, project, lambda found, _: with_state(found, ProjectState.PAUSED))


@app.command()
def finish(ctx: typer.Context, project: Named) -> None:
    """Set a project to done. All its tasks must be done or dropped."""
    _change(ctx, project, lambda found, _: with_state(found, ProjectState.DONE))


@app.command()
def drop(ctx: typer.Context, project: Named) -> None:
    """Give up a project, but keep it."""
    _change(ctx, project, lambda found, _: with_state(found, ProjectState.DROPPED))


@app.command()
def delete(ctx: typer.Context, project: Named) -> None:
    """Delete a project with its tasks, notes and links. Runs, files, skills and jobs stay."""
    gone = _with_store(ctx, lambda store: store.delete(None, project))
    say(f"deleted {gone.name}.")


@app.command()
def task(
    ctx: typer.Context,
    project: Named,
    title: Annotated[str, typer.Argument(help="What to do.")],
    *,
    needs: Annotated[list[int] | None, typer.Option("--needs", help="A task that must end first. Repeatable.")] = None,
    before: Annotated[int, typer.Option("--before", min=0, help="Insert it before this task.")] = 0,
) -> None:
    """Add a task."""
    new = NewTask(title, tuple(needs or ()))
    _change(ctx, project, lambda found, at: with_tasks(found, [new], at, before=before))


@app.command("set-task")
def set_task(
    ctx: typer.Context,
    project: Named,
    number: Annotated[int, typer.Argument(help="The number of the task.")],
    *,
    state: Annotated[TaskState | None, typer.Option("--state", help="The new state.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="The new title.")] = None,
    needs: Annotated[list[int] | None, typer.Option("--needs", help="A task that must end first. Repeatable.")] = None,
    before: Annotated[
        int | None, typer.Option("--before", min=0, help="Move it before this task; 0: to the end.")
    ] = None,
) -> None:
    """Change the state, the title, the dependencies or the place of a task."""
    _change(
        ctx,
        project,
        lambda found, at: with_changed_task(
            found, number, at, state=state, title=title, needs=needs or None, before=before
        ),
    )


@app.command()
def note(ctx: typer.Context, project: Named, text: Annotated[str, typer.Argument(help="The note.")]) -> None:
    """Add a note."""
    _change(ctx, project, lambda found, at: with_note(found, text, at))


@app.command("remove-note")
def remove_note(
    ctx: typer.Context, project: Named, number: Annotated[int, typer.Argument(help="The number of the note.")]
) -> None:
    """Remove a note."""
    _change(ctx, project, lambda found, _: without_note(found, number))


@app.command()
def link(ctx: typer.Context, project: Named, kind: Kind, target: Target) -> None:
    """Connect a run, a file or a skill with a project."""
    _change(ctx, project, lambda found, at: with_link(found, kind, target, at))


@app.command()
def unlink(ctx: typer.Context, project: Named, kind: Kind, target: Target) -> None:
    """Remove a link."""
    _change(ctx, project, lambda found, _: without_link(found, kind, target))


async def _jobs(engine: Engine, project: Project) -> list[tuple[str, str]]:
    """Return the ids and names of the jobs that belong to a project."""
    listed = await engine.call("manage_tasks", {"action": "list"}, Turn(user=project.user))
    jobs = listed.output if listed.success else []
    return [(job["id"], job["name"]) for job in jobs if job["project"] == project.id]


def _change(ctx: typer.Context, project: str, change: Change) -> None:
    _report(_with_store(ctx, lambda store: store.change(None, project, change)))


def _report(changed: ChangedProject) -> None:
    if changed.paused:
        say(f"{changed.paused} is paused now.")
    short = brief(changed.project)
    say(f"{changed.project.name}: {short['state']}, {short['done']} of {short['tasks']} tasks done.")


def _with_store(ctx: typer.Context, work: Callable[[ProjectStore], T]) -> T:
    """Open an engine, and call a function with the projects in a thread."""

    async def in_thread(engine: Engine) -> T:
        return await asyncio.to_thread(work, engine.need(ProjectStore))

    with _reported(), working("working") as spinner:
        return with_engine(ctx, in_thread, spinner)


@contextmanager
def _reported() -> Iterator[None]:
    """End the command with a message if the project is unknown or the change is not possible."""
    try:
        yield
    except (UnknownProject, ProjectError) as error:
        fail(str(error), Exit.USAGE)
