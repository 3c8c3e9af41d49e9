"""The tables of ``projects.db``. All times are UTC, ISO 8601."""

from sqlalchemy import Column, Index, Integer, MetaData, String, Table, Text, UniqueConstraint, literal_column

from builtin_tools.projects.project import ProjectState

ID = 12  # characters of a project's id
SCHEMA = MetaData()

PROJECTS = Table(
    "projects",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("user", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),  # the name without differences of case
    Column("goal", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("created", String(40), nullable=False),
    Column("changed", String(40), nullable=False),
    Column("last_task", Integer, nullable=False),
    Column("last_note", Integer, nullable=False),
    UniqueConstraint("user", "name_key"),
)
ACTIVE = PROJECTS.c.state == literal_column(f"'{ProjectState.ACTIVE.value}'")
# A user cannot have two active projects, whichever processes make changes.
Index("projects_active", PROJECTS.c.user, unique=True, sqlite_where=ACTIVE)

TASKS = Table(
    "project_tasks",
    SCHEMA,
    Column("project", String(ID), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("changed", String(40), nullable=False),
)
NEEDS = Table(
    "project_task_needs",
    SCHEMA,
    Column("project", String(ID), primary_key=True),
    Column("task", Integer, primary_key=True),
    Column("needs", Integer, primary_key=True),
)
NOTES = Table(
    "project_notes",
    SCHEMA,
    Column("project", String(ID), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("created", String(40), nullable=False),
)
LINKS = Table(
    "project_links",
    SCHEMA,
    Column("project", String(ID), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("target", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("created", String(40), nullable=False),
)
PARTS = (TASKS, NEEDS, NOTES, LINKS)
