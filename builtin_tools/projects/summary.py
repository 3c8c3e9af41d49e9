"""`summary`: a project as a short text for prompts. It is bounded, and changes only when the project changes."""

from builtin_tools.projects.project import ENDED_TASK, Project, ProjectTask, TaskState

MOST_CHARACTERS = 2_400
_GOAL = 350  # characters
_TITLE = 100
_TASKS = 8
_NOTE = 140
_NOTES = 2
_LINK = 50
_LINKS = 4


def summary(project: Project) -> str:
    """Return a text of at most `MOST_CHARACTERS`: the goal, the next tasks, the newest notes and links."""
    done = sum(task.state is TaskState.DONE for task in project.tasks)
    counted = sum(task.state is not TaskState.DROPPED for task in project.tasks)
    lines = [
        f"The project of this work: {project.name} (id {project.id}, {project.state}), {done} of {counted} tasks done."
    ]
    if project.goal:
        lines.append(f"Goal: {shortened(project.goal, _GOAL)}")
    unfinished = [task for task in project.tasks if task.state not in ENDED_TASK]
    if unfinished:
        lines.append("Next tasks:")
        lines += [task_line(project, task, _TITLE) for task in unfinished[:_TASKS]]
    if len(unfinished) > _TASKS:
        lines.append(f"and {len(unfinished) - _TASKS} more")
    if project.notes:
        lines.append("Newest notes:")
        lines += [f"- {shortened(note.text, _NOTE)}" for note in project.notes[-_NOTES:]]
    if project.links:
        newest = [f"{link.kind} {shortened(link.target, _LINK)}" for link in project.links[-_LINKS:]]
        lines.append(f"Newest links: {', '.join(newest)}")
    lines.append("Keep its tasks and notes up to date with manage_projects, whose `show` has the rest.")
    return "\n".join(lines)


def task_line(project: Project, task: ProjectTask, most: int = 10_000) -> str:
    """Return a task as one line, such as ``4. Write the tests (waits for 2, 3)``."""
    waiting = [str(number) for number in project.waits_for(task)] if task.state not in ENDED_TASK else []
    state = "" if task.state is TaskState.OPEN else f" ({task.state})"
    waits = f" (waits for {shortened(', '.join(waiting), 20)})" if waiting else ""
    return f"{task.number}. {shortened(task.title, most)}{state}{waits}"


def shortened(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
