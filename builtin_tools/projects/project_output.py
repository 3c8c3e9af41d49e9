"""Projects as JSON objects and as text, for the tool and the commands."""

from typing_extensions import TypedDict

from builtin_tools.projects.project import Project, TaskState
from builtin_tools.projects.summary import shortened, task_line

_NOTES = 20  # newest notes in the text
_NOTE = 500  # characters of each


class ProjectBrief(TypedDict):
    """A project in a list.

    Attributes:
        tasks, done: How many tasks it has, without dropped ones, and how many of them are done.
        changed: When it was last changed, UTC, ISO 8601.
    """

    id: str
    name: str
    state: str
    goal: str
    tasks: int
    done: int
    changed: str


class TaskOutput(TypedDict):
    """A task.

    Attributes:
        needs: The numbers of the tasks that must end before it can be done.
        waits_for: Those of them that have not ended.
    """

    number: int
    title: str
    state: str
    needs: list[int]
    waits_for: list[int]


class NoteOutput(TypedDict):
    """A note."""

    number: int
    created: str
    text: str


class LinkOutput(TypedDict):
    """A link to a run, a file or a skill."""

    kind: str
    target: str


class ProjectOutput(TypedDict):
    """A project with everything in it."""

    id: str
    name: str
    state: str
    goal: str
    created: str
    changed: str
    tasks: list[TaskOutput]
    notes: list[NoteOutput]
    links: list[LinkOutput]


def brief(project: Project) -> ProjectBrief:
    """Return a project for a list."""
    return {
        "id": project.id,
        "name": project.name,
        "state": project.state.value,
        "goal": project.goal,
        "tasks": sum(task.state is not TaskState.DROPPED for task in project.tasks),
        "done": sum(task.state is TaskState.DONE for task in project.tasks),
        "changed": project.changed,
    }


def project_output(project: Project) -> ProjectOutput:
    """Return a project as a JSON object."""
    return {
        "id": project.id,
        "name": project.name,
        "state": project.state.value,
        "goal": project.goal,
        "created": project.created,
        "changed": project.changed,
        "tasks": [
            {
                "number": task.number,
                "title": task.title,
                "state": task.state.value,
                "needs": list(task.needs),
                "waits_for": list(project.waits_for(task)),
            }
            for task in project.tasks
        ],
        "notes": [{"number": note.number, "created": note.created, "text": note.text} for note in project.notes],
        "links": [{"kind": link.kind, "target": link.target} for link in project.links],
    }


def project_text(project: Project) -> str:
    """Return a project as text: all tasks, the newest notes, and all links."""
    lines = [f"{project.name} (id {project.id}, {project.state})"]
    lines += [f"Goal: {project.goal}"] if project.goal else []
    lines += ["Tasks:"] if project.tasks else ["It has no tasks."]
    lines += [task_line(project, task) for task in project.tasks]
    if project.notes:
        older = len(project.notes) - _NOTES
        lines.append("Notes:" if older <= 0 else f"Notes ({older} older ones are not shown):")
        lines += [f"{note.number}. {shortened(note.text, _NOTE)}" for note in project.notes[-_NOTES:]]
    if project.links:
        lines.append("Links:")
        lines += [f"- {link.kind} {link.target}" for link in project.links]
    return "\n".join(lines)
