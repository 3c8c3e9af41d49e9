"""`ProjectStore`: the database with all projects (``projects.db``), which threads and processes share."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from builtin_tools.projects.project import (
    Project,
    ProjectError,
    ProjectLink,
    ProjectNote,
    ProjectState,
    ProjectTask,
    TaskState,
    renamed,
)
from builtin_tools.projects.tables import ACTIVE, ID, LINKS, NEEDS, NOTES, PARTS, PROJECTS, SCHEMA, TASKS
from engine.contract.context import Clock
from engine.stores.records import Records
from engine.stores.sqlite_file import Contents

MOST_PROJECTS = 500  # of one user
CONTENTS = Contents(
    held="the projects with their tasks and notes",
    kept="skills, the records, events, the memory, jobs, settings and the workspace",
)


Change = Callable[[Project, str], Project]  # receives the project and the current time


class UnknownProject(LookupError):
    """There is no such project, or several have this name."""


def unchanged(project: Project, at: str) -> Project:
    """Change nothing."""
    del at
    return project


@dataclass(frozen=True, slots=True)
class ChangedProject:
    """The result of a change.

    Attributes:
        project: The project after the change.
        paused: The name of the project that was active before, and is paused now; "" if there is none.
    """

    project: Project
    paused: str = ""


class ProjectStore:
    """The projects of all users. Every method blocks, and is one transaction."""

    def __init__(self, records: Records, clock: Clock) -> None:
        """Create missing tables. `close` closes the database, too."""
        self._records = records
        self._clock = clock
        records.create(SCHEMA)

    @classmethod
    def open(cls, path: Path, clock: Clock) -> "ProjectStore":
        """Open or create the database. Deleted rows are overwritten with zeros.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        return cls(Records.open(f"sqlite:///{path}", secure_delete=True, contents=CONTENTS), clock)

    def now(self) -> str:
        """Return the current time, as it is stored."""
        return self._clock.now().isoformat(timespec="seconds")

    def add(self, user: str, name: str, goal: str = "", begin: Change = unchanged) -> ChangedProject:
        """Add a project, which is planned.

        Args:
            user: Its user.
            name: Its name, which no other project of the user may have.
            goal: Its goal.
            begin: A first change, such as adding tasks. If it is not possible, no project is added.

        Raises:
            ProjectError: A text is invalid, the user has a project of this name, or too many projects.
        """
        now = self.now()
        empty = Project(secrets.token_hex(ID // 2), user, "", created=now, changed=now)
        planned = renamed(empty, name, goal)
        with self._records.begin() as connection:
            _check_name(connection, planned)
            own = select(func.count()).where(PROJECTS.c.user == user)
            if connection.execute(own).scalar_one() >= MOST_PROJECTS:
                raise ProjectError(f"{user} already has {MOST_PROJECTS} projects. Delete one first.")
            project = begin(planned, now)
            paused = _pause_active(connection, user, now) if project.state is ProjectState.ACTIVE else ""
            connection.execute(insert(PROJECTS).values(_row_of(project)))
            _save(connection, project)
            return ChangedProject(project, paused)

    def find(self, user: str | None, named: str) -> Project:
        """Return a project by its id or its name.

        Args:
            user: Its user; None for any.
            named: The id or the name, in upper or lower case.

        Raises:
            UnknownProject: There is no such project, or several users have one of this name.
        """
        with self._records.read() as connection:
            return _load(connection, [_found(connection, user, named)])[0]

    def active(self, user: str) -> Project | None:
        """Return the active project of a user."""
        with self._records.read() as connection:
            rows = connection.execute(select(PROJECTS).where(ACTIVE & (PROJECTS.c.user == user))).all()
            return next(iter(_load(connection, rows)), None)

    def projects(self, user: str | None) -> list[Project]:
        """Return the projects of a user, or of all users for None, newest change first."""
        with self._records.read() as connection:
            every = select(PROJECTS).order_by(PROJECTS.c.changed.desc(), PROJECTS.c.created.desc(), PROJECTS.c.id)
            rows = connection.execute(every if user is None else every.where(PROJECTS.c.user == user)).all()
            return _load(connection, rows)

    def change(self, user: str | None, named: str, change: Change) -> ChangedProject:
        """Change a project. If it becomes active, the user's project that was active is paused.

        Args:
            user: Its user; None for any.
            named: Its id or its name.
            change: Receives the project and the current time, and returns the changed project.

        Raises:
            UnknownProject: As in `find`.
            ProjectError: The change is not possible. Nothing was changed.
        """
        with self._records.begin() as connection:
            (before,) = _load(connection, [_found(connection, user, named)])
            now = self.now()
            after = change(before, now)
            if after == before:
                return ChangedProject(before)
            if after.name != before.name:
                _check_name(connection, after)
            paused = ""
            if after.state is ProjectState.ACTIVE and before.state is not ProjectState.ACTIVE:
                paused = _pause_active(connection, before.user, now)
            after = replace(after, changed=now)
            _save(connection, after)
            return ChangedProject(after, paused)

    def delete(self, user: str | None, named: str) -> Project:
        """Delete a project with its tasks, notes and links, and return it.

        Raises:
            UnknownProject: As in `find`.
        """
        with self._records.begin() as connection:
            (project,) = _load(connection, [_found(connection, user, named)])
            for table in PARTS:
                connection.execute(delete(table).where(table.c.project == project.id))
            connection.execute(delete(PROJECTS).where(PROJECTS.c.id == project.id))
        self._records.truncate_log()  # so that the deleted texts are not in the log either
        return project

    def close(self) -> None:
        """Close the database."""
        self._records.close()


def _found(connection: Connection, user: str | None, named: str) -> Row[Any]:
    owned = PROJECTS.c.user == user if user is not None else PROJECTS.c.user.is_not(None)
    by_id = connection.execute(select(PROJECTS).where(owned & (PROJECTS.c.id == named))).one_or_none()
    if by_id is not None:
        return by_id
    rows = connection.execute(select(PROJECTS).where(owned & (PROJECTS.c.name_key == _key(named)))).all()
    if len(rows) > 1:
        ids = ", ".join(row.id for row in rows)
        raise UnknownProject(f"Several users have a project {named[:100]!r}. Give one of these ids: {ids}.")
    if not rows:
        raise UnknownProject(f"There is no project {named[:100]!r}. The action `list` shows all projects.")
    return rows[0]


def _check_name(connection: Connection, project: Project) -> None:
    same = (PROJECTS.c.user == project.user) & (PROJECTS.c.name_key == _key(project.name))
    found = connection.execute(select(PROJECTS).where(same & (PROJECTS.c.id != project.id))).first()
    if found is not None:
        raise ProjectError(
            f"The user already has a project {found.name!r}, which is {found.state} (id {found.id}). "
            "Use it, or choose another name."
        )


def _key(name: str) -> str:
    return " ".join(name.split()).casefold()


def _pause_active(connection: Connection, user: str, now: str) -> str:
    """Pause the active project of a user, and return its name; "" if there is none."""
    active = ACTIVE & (PROJECTS.c.user == user)
    found = connection.execute(select(PROJECTS.c.name).where(active)).scalar()
    connection.execute(update(PROJECTS).where(active).values(state=ProjectState.PAUSED.value, changed=now))
    return found or ""


def _load(connection: Connection, rows: Sequence[Row[Any]]) -> list[Project]:
    """Return the projects of some rows, with their tasks, notes and links."""
    loaded = []
    for row in rows:
        needs: dict[int, list[int]] = defaultdict(list)
        for each in connection.execute(select(NEEDS).where(NEEDS.c.project == row.id).order_by(NEEDS.c.needs)):
            needs[each.task].append(each.needs)
        tasks = connection.execute(select(TASKS).where(TASKS.c.project == row.id).order_by(TASKS.c.position))
        notes = connection.execute(select(NOTES).where(NOTES.c.project == row.id).order_by(NOTES.c.number))
        links = connection.execute(select(LINKS).where(LINKS.c.project == row.id).order_by(LINKS.c.position))
        loaded.append(
            Project(
                row.id,
                row.user,
                row.name,
                row.goal,
                ProjectState(row.state),
                row.created,
                row.changed,
                tuple(
                    ProjectTask(t.number, t.title, TaskState(t.state), tuple(needs[t.number]), t.changed) for t in tasks
                ),
                tuple(ProjectNote(note.number, note.text, note.created) for note in notes),
                tuple(ProjectLink(link.kind, link.target, link.created) for link in links),
                row.last_task,
                row.last_note,
            )
        )
    return loaded


def _save(connection: Connection, project: Project) -> None:
    """Replace the rows of a project."""
    rows: dict[str, list[dict[str, Any]]] = {
        TASKS.name: [
            {
                "number": task.number,
                "position": at,
                "title": task.title,
                "state": task.state.value,
                "changed": task.changed,
            }
            for at, task in enumerate(project.tasks)
        ],
        NEEDS.name: [{"task": task.number, "needs": needed} for task in project.tasks for needed in task.needs],
        NOTES.name: [{"number": note.number, "text": note.text, "created": note.created} for note in project.notes],
        LINKS.name: [
            {"kind": link.kind, "target": link.target, "position": at, "created": link.created}
            for at, link in enumerate(project.links)
        ],
    }
    connection.execute(update(PROJECTS).where(PROJECTS.c.id == project.id).values(_row_of(project)))
    for table in PARTS:
        connection.execute(delete(table).where(table.c.project == project.id))
        if rows[table.name]:
            connection.execute(insert(table), [{"project": project.id, **row} for row in rows[table.name]])


def _row_of(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "user": project.user,
        "name": project.name,
        "name_key": _key(project.name),
        "goal": project.goal,
        "state": project.state.value,
        "created": project.created,
        "changed": project.changed,
        "last_task": project.last_task,
        "last_note": project.last_note,
    }
