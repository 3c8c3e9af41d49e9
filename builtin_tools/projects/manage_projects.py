"""`manage_projects`: creates and manages projects with their tasks, notes and links."""

import asyncio
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.projects.project import (
    MOST_GOAL,
    MOST_NAME,
    MOST_NOTE,
    MOST_TARGET,
    MOST_TITLE,
    LinkKind,
    NewTask,
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
from builtin_tools.projects.project_output import ProjectBrief, ProjectOutput, brief, project_output, project_text
from builtin_tools.projects.store import Change, ProjectStore, UnknownProject
from engine.contract.context import CallContext, Produced
from engine.contract.failure import refusal
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool

Action = Literal[
    "create", "list", "show", "update", "set_state", "add_tasks", "update_task", "add_note", "remove_note", "link",
    "unlink", "delete",
]  # fmt: skip


class TaskInput(TypedDict):
    """A task to add.

    Attributes:
        title: What to do.
        needs: What must end first: numbers of tasks, or titles of other tasks in the same call.
    """

    title: Annotated[str, Field(min_length=1, max_length=MOST_TITLE)]
    needs: NotRequired[list[int | str]]


@tool(
    category="projects",
    annotations=Annotations(),
    side_effects=("project_write",),
    required_permission="user",
    private_arguments=("goal", "note", "tasks", "title"),
    short_description="Keep track of longer work: projects with a goal, tasks, notes and links.",
)
async def manage_projects(
    ctx: CallContext,
    action: Action,
    *,
    project: str = "",
    name: Annotated[str, Field(max_length=MOST_NAME)] = "",
    goal: Annotated[str, Field(max_length=MOST_GOAL)] = "",
    state: Literal["", "planned", "active", "paused", "done", "dropped", "open", "doing"] = "",
    tasks: Annotated[list[TaskInput] | None, Field(max_length=100)] = None,
    number: Annotated[int, Field(ge=0)] = 0,
    title: Annotated[str, Field(max_length=MOST_TITLE)] = "",
    needs: list[int] | None = None,
    before: Annotated[int | None, Field(ge=0)] = None,
    note: Annotated[str, Field(max_length=MOST_NOTE)] = "",
    kind: LinkKind | None = None,
    target: Annotated[str, Field(max_length=MOST_TARGET)] = "",
) -> Produced[ProjectOutput | list[ProjectBrief]]:
    """Keep track of work that takes longer than one conversation: a goal, tasks with order and dependencies, notes.

    Create a project when the user plans something with several steps over hours or days, not for a single request. One
    project at a time is active: a summary of it is part of your instructions. Set tasks to `doing` and `done` as you
    work, and note decisions and results that will matter later.

    create: needs name; takes goal, tasks, and state active to begin at once. list: all projects of the user. show: one
    project in full. update: changes name or goal. set_state: planned, active, paused, done or dropped; when a project
    becomes active, the one that was active is paused. add_tasks: adds tasks at the end, or before another task.
    update_task: changes state (open, doing, done, dropped), title, needs or place of a task. A task cannot begin before
    the tasks that it needs are done or dropped. add_note, remove_note: notes. link, unlink: connects a run, file or
    skill with the project. delete: removes the project with everything in it; prefer the state dropped.

    Args:
        action: What to do.
        project: The id or name of the project. Leave it out for the one in your instructions.
        name: A short name, such as "website". With update, the new name.
        goal: What should be reached, and how to recognize that it is.
        state: The new state of a project (set_state, create) or of a task (update_task).
        tasks: The tasks to add, in order.
        number: The number of the task (update_task) or note (remove_note).
        title: The new title of a task.
        needs: The numbers of all tasks that must end before this one.
        before: The number of the task before which to insert or move; 0 for the end.
        note: The text of a note.
        kind: What the link leads to.
        target: The id of the run, the path of the file in the workspace, or the name of the skill.
    """
    store = ctx.need(ProjectStore)
    user = ctx.turn.user
    try:
        if action == "create":
            new = [_new_task(each) for each in tasks or []]
            return await asyncio.to_thread(_create, store, user, (name, goal), new, state)
        if action == "list":
            found = await asyncio.to_thread(store.projects, user)
            lines = [f"{each.id}: {each.name}, {each.state}" for each in found]
            return Produced([brief(each) for each in found], "\n".join(lines) or "There are no projects.")
        named = project or await asyncio.to_thread(_current, store, user, ctx.turn.project)
        if action == "show":
            shown = await asyncio.to_thread(store.find, user, named)
            return Produced(project_output(shown), project_text(shown))
        if action == "delete":
            if not project:
                raise wrong_arguments("`project` is missing: name the project to delete.")
            gone = await asyncio.to_thread(store.delete, user, named)
            return Produced(project_output(gone), f"Deleted {gone.name}.", (f"delete:project {gone.id}",))
        change = _change(
            action,
            name=name,
            goal=goal,
            state=state,
            tasks=[_new_task(each) for each in tasks or []],
            number=number,
            title=title,
            needs=needs,
            before=before,
            note=note,
            kind=kind,
            target=target,
        )
        changed = await asyncio.to_thread(store.change, user, named, change)
    except ProjectError as error:
        raise wrong_arguments(str(error)) from error
    except UnknownProject as error:
        raise refusal(str(error), "not_found") from error
    paused = f"{changed.paused} is paused now.\n" if changed.paused else ""
    effects = (f"{action}:project {changed.project.id}",)
    return Produced(project_output(changed.project), paused + project_text(changed.project), effects)


def _create(
    store: ProjectStore, user: str, texts: tuple[str, str], tasks: list[NewTask], state: str
) -> Produced[ProjectOutput | list[ProjectBrief]]:
    wanted = ProjectState(_project_state(state or "planned"))
    made = store.add(user, *texts, lambda planned, at: with_state(with_tasks(planned, tasks, at), wanted))
    paused = f" {made.paused} is paused now." if made.paused else ""
    text = f"Created project {made.project.id}.{paused}\n{project_text(made.project)}"
    return Produced(project_output(made.project), text, (f"created:project {made.project.id}",))


def _current(store: ProjectStore, user: str, project: str) -> str:
    """Return the id of the turn's project, or else of the user's active one."""
    if project:
        return project
    active = store.active(user)
    if active is None:
        raise ProjectError("No project is active, so `project` is needed. The action `list` shows all projects.")
    return active.id


def _change(  # noqa: PLR0911 -- one line for each action
    action: Action,
    *,
    name: str,
    goal: str,
    state: str,
    tasks: list[NewTask],
    number: int,
    title: str,
    needs: list[int] | None,
    before: int | None,
    note: str,
    kind: LinkKind | None,
    target: str,
) -> Change:
    """Return what an action does with a project."""
    match action:
        case "update":
            _needed(name or goal, "name` or `goal")
            return lambda project, _: renamed(project, name or None, goal or None)
        case "set_state":
            wanted = ProjectState(_project_state(_needed(state, "state")))
            return lambda project, _: with_state(project, wanted)
        case "add_tasks":
            _needed("yes" if tasks else "", "tasks")
            return lambda project, at: with_tasks(project, tasks, at, before=before or 0)
        case "update_task":
            _needed(str(number or ""), "number")
            task_state = TaskState(_task_state(state)) if state else None
            return lambda project, at: with_changed_task(
                project, number, at, title=title or None, state=task_state, needs=needs, before=before
            )
        case "add_note":
            _needed(note, "note")
            return lambda project, at: with_note(project, note, at)
        case "remove_note":
            _needed(str(number or ""), "number")
            return lambda project, _: without_note(project, number)
    if kind is None:
        raise wrong_arguments("`kind` is missing: run, file or skill.")
    _needed(target, "target")
    if action == "link":
        return lambda project, at: with_link(project, kind, target, at)
    return lambda project, _: without_link(project, kind, target)


def _new_task(given: TaskInput) -> NewTask:
    return NewTask(given["title"], tuple(given.get("needs", ())))


def _project_state(state: str) -> str:
    if state not in set(ProjectState):
        raise wrong_arguments(f"A project cannot be {state}. Its states are {', '.join(ProjectState)}.")
    return state


def _task_state(state: str) -> str:
    if state not in set(TaskState):
        raise wrong_arguments(f"A task cannot be {state}. Its states are {', '.join(TaskState)}.")
    return state


def _needed(value: str, what: str) -> str:
    if not value:
        raise wrong_arguments(f"`{what}` is missing.")
    return value
