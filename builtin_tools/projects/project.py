"""`Project`: a goal of a user, with tasks, notes and links, and the changes that are allowed.

The functions here return changed copies. They know nothing of the database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from builtin_tools.projects.task_order import check_needs, moved_before

MOST_NAME = 100  # characters
MOST_GOAL = 2_000
MOST_TITLE = 300
MOST_NOTE = 4_000
MOST_TARGET = 500
MOST_TASKS = 500
MOST_NOTES = 500
MOST_LINKS = 500

LinkKind = Literal["run", "file", "skill"]


class ProjectState(StrEnum):
    """The state of a project. A user has at most one active project."""

    PLANNED = "planned"
    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    DROPPED = "dropped"


class TaskState(StrEnum):
    """The state of a task of a project. Done and dropped tasks have ended, so no other task waits for them."""

    OPEN = "open"
    DOING = "doing"
    DONE = "done"
    DROPPED = "dropped"


ENDED_TASK = frozenset({TaskState.DONE, TaskState.DROPPED})
NEXT_STATES = {
    ProjectState.PLANNED: frozenset({ProjectState.ACTIVE, ProjectState.DROPPED}),
    ProjectState.ACTIVE: frozenset({ProjectState.PAUSED, ProjectState.DONE, ProjectState.DROPPED}),
    ProjectState.PAUSED: frozenset({ProjectState.ACTIVE, ProjectState.DONE, ProjectState.DROPPED}),
    ProjectState.DONE: frozenset({ProjectState.ACTIVE}),
    ProjectState.DROPPED: frozenset({ProjectState.ACTIVE}),
}


class ProjectError(ValueError):
    """A change of a project is not possible. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ProjectTask:
    """A task of a project.

    Attributes:
        number: Identifies it within its project; from 1, and never used again.
        needs: The numbers of the tasks that must end before it can be done, sorted.
        changed: When its state changed last, UTC, ISO 8601.
    """

    number: int
    title: str
    state: TaskState = TaskState.OPEN
    needs: tuple[int, ...] = ()
    changed: str = ""


@dataclass(frozen=True, slots=True)
class ProjectNote:
    """A note on a project. Its number is never used again."""

    number: int
    text: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class ProjectLink:
    """Something that belongs to a project: the id of a run, the path of a file, or the name of a skill."""

    kind: LinkKind
    target: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to add.

    Attributes:
        needs: What it waits for: numbers of tasks, or titles of other tasks that are added with it.
    """

    title: str
    needs: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """A project.

    Attributes:
        created, changed: When it was created, and when it was last changed in any way; UTC, ISO 8601.
        tasks: In the order in which they should be done.
        notes: Oldest first.
        links: Oldest first.
        last_task, last_note: The highest numbers that were ever used.
    """

    id: str
    user: str
    name: str
    goal: str = ""
    state: ProjectState = ProjectState.PLANNED
    created: str = ""
    changed: str = ""
    tasks: tuple[ProjectTask, ...] = ()
    notes: tuple[ProjectNote, ...] = ()
    links: tuple[ProjectLink, ...] = ()
    last_task: int = 0
    last_note: int = 0

    def task(self, number: int) -> ProjectTask:
        """Return a task.

        Raises:
            ProjectError: There is no such task.
        """
        found = next((task for task in self.tasks if task.number == number), None)
        if found is None:
            raise ProjectError(f"The project {self.name} has no task {number}. The action `show` lists the tasks.")
        return found

    def waits_for(self, task: ProjectTask) -> tuple[int, ...]:
        """Return the numbers of the tasks that must end before a task can be done."""
        ended = {each.number for each in self.tasks if each.state in ENDED_TASK}
        return tuple(number for number in task.needs if number not in ended)


def renamed(project: Project, name: str | None, goal: str | None) -> Project:
    """Change the name and the goal; None keeps them.

    Raises:
        ProjectError: The name is empty or a text is too long.
    """
    return replace(
        project,
        name=project.name if name is None else one_line(name, MOST_NAME, "name"),
        goal=project.goal if goal is None else _text(goal, MOST_GOAL, "goal"),
    )


def with_state(project: Project, state: ProjectState) -> Project:
    """Change the state.

    Raises:
        ProjectError: This state cannot follow the current one, or tasks are open although the project should be done.
    """
    if state is project.state:
        return project
    if state not in NEXT_STATES[project.state]:
        possible = ", ".join(sorted(NEXT_STATES[project.state]))
        raise ProjectError(f"A project that is {project.state} cannot become {state}, only {possible}.")
    unfinished = [task for task in project.tasks if task.state not in ENDED_TASK]
    if state is ProjectState.DONE and unfinished:
        shown = ", ".join(str(task.number) for task in unfinished[:10])
        raise ProjectError(
            f"{len(unfinished)} tasks of {project.name} have not ended ({shown}). Set each to done or dropped first."
        )
    return replace(project, state=state)


def with_tasks(project: Project, added: Sequence[NewTask], at: str, *, before: int = 0) -> Project:
    """Add tasks.

    Args:
        project: The project.
        added: The tasks, in order.
        at: The current time.
        before: The number of the task before which they are inserted; 0 for the end.

    Raises:
        ProjectError: A dependency is unknown or part of a cycle, a text is invalid, or there are too many tasks.
    """
    if len(project.tasks) + len(added) > MOST_TASKS:
        raise ProjectError(f"A project may have {MOST_TASKS} tasks at most. Put the rest into another project.")
    numbers = range(project.last_task + 1, project.last_task + 1 + len(added))
    titles = [one_line(each.title, MOST_TITLE, "title") for each in added]
    by_title = dict(zip(titles, numbers, strict=True))
    new = [
        ProjectTask(number, title, needs=_numbers(each.needs, by_title), changed=at)
        for number, title, each in zip(numbers, titles, added, strict=True)
    ]
    tasks = moved_before((*project.tasks, *new), numbers, _existing(project, before))
    return _checked(replace(project, tasks=tasks, last_task=project.last_task + len(added)))


def with_changed_task(
    project: Project,
    number: int,
    at: str,
    *,
    title: str | None = None,
    state: TaskState | None = None,
    needs: Iterable[int] | None = None,
    before: int | None = None,
) -> Project:
    """Change a task; what is None stays as it is.

    Args:
        project: The project.
        number: The number of the task.
        at: The current time.
        title: Its new title.
        state: Its new state.
        needs: The numbers of the tasks that it waits for.
        before: The number of the task before which it is moved; 0 for the end.

    Raises:
        ProjectError: There is no such task, it is done although it waits for others, or the dependencies have a cycle.
    """
    task = project.task(number)
    changed = task if title is None else replace(task, title=one_line(title, MOST_TITLE, "title"))
    if needs is not None:
        changed = replace(changed, needs=tuple(sorted(set(needs))))
    if state is not None and state is not task.state:
        changed = replace(changed, state=state, changed=at)
    tasks = tuple(changed if each.number == number else each for each in project.tasks)
    if before is not None:
        tasks = moved_before(tasks, [number], _existing(project, before))
    result = _checked(replace(project, tasks=tasks))
    waiting = result.waits_for(changed)
    if changed.state in (TaskState.DOING, TaskState.DONE) and changed != task and waiting:
        shown = ", ".join(map(str, waiting))
        raise ProjectError(
            f"Task {number} waits for {shown}. Set these to done or dropped first, or change its `needs`."
        )
    return result


def with_note(project: Project, text: str, at: str) -> Project:
    """Add a note.

    Raises:
        ProjectError: The text is empty or too long, or there are too many notes.
    """
    if len(project.notes) >= MOST_NOTES:
        raise ProjectError(f"A project may have {MOST_NOTES} notes at most. Remove some, or write a file and link it.")
    text = _text(text, MOST_NOTE, "note")
    if not text:
        raise ProjectError("The note is empty.")
    number = project.last_note + 1
    return replace(project, notes=(*project.notes, ProjectNote(number, text, at)), last_note=number)


def without_note(project: Project, number: int) -> Project:
    """Remove a note.

    Raises:
        ProjectError: There is no such note.
    """
    kept = tuple(note for note in project.notes if note.number != number)
    if len(kept) == len(project.notes):
        raise ProjectError(f"The project {project.name} has no note {number}.")
    return replace(project, notes=kept)


def with_link(project: Project, kind: LinkKind, target: str, at: str) -> Project:
    """Add a link. A link that exists stays as it is.

    Raises:
        ProjectError: The target is empty or too long, or there are too many links.
    """
    target = one_line(target, MOST_TARGET, "target")
    if any((link.kind, link.target) == (kind, target) for link in project.links):
        return project
    if len(project.links) >= MOST_LINKS:
        raise ProjectError(f"A project may have {MOST_LINKS} links at most. Remove some.")
    return replace(project, links=(*project.links, ProjectLink(kind, target, at)))


def without_link(project: Project, kind: LinkKind, target: str) -> Project:
    """Remove a link.

    Raises:
        ProjectError: There is no such link.
    """
    kept = tuple(link for link in project.links if (link.kind, link.target) != (kind, target))
    if len(kept) == len(project.links):
        raise ProjectError(f"The project {project.name} has no link to the {kind} {target[:100]!r}.")
    return replace(project, links=kept)


def one_line(text: str, most: int, what: str) -> str:
    """Return a text as one line.

    Raises:
        ProjectError: It is empty, or has more than `most` characters.
    """
    line = _text(" ".join(text.split()), most, what)
    if not line:
        raise ProjectError(f"The {what} is empty.")
    return line


def _text(text: str, most: int, what: str) -> str:
    text = text.strip()
    if len(text) > most:
        raise ProjectError(f"The {what} may have {most} characters at most, but this has {len(text)}.")
    return text


def _numbers(needs: Iterable[int | str], by_title: dict[str, int]) -> tuple[int, ...]:
    found = set()
    for each in needs:
        number = by_title.get(" ".join(each.split())) if isinstance(each, str) else each
        if number is None:
            raise ProjectError(
                f"No task with the title {str(each)[:100]!r} is added here. Give the number of the task."
            )
        found.add(number)
    return tuple(sorted(found))


def _existing(project: Project, before: int) -> int:
    """Check that there is a task with this number, unless it is 0."""
    return project.task(before).number if before else 0


def _checked(project: Project) -> Project:
    """Check the dependencies.

    Raises:
        ProjectError: They are unknown, or have a cycle.
    """
    try:
        check_needs({task.number: task.needs for task in project.tasks})
    except ValueError as error:
        raise ProjectError(str(error)) from error
    return project
