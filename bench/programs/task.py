"""`ToolTask`, and what the tasks of the benchmark have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.programs.records import Row, Tables

REGIONS = "city,region,target\nRome,south,60\nOslo,north,80\nLyon,west,30\nPorto,west,45\n"
RATES = "country,rate\nItaly,22\nNorway,25\nFrance,20\n"
FILES = {"regions.csv": REGIONS, "rates.csv": RATES}
"""The files of the workspace, which some tasks read."""

EVERY = """\
def every(find, **given):
    rows = []
    while True:
        page = find(**given, offset=len(rows))["rows"]
        rows += page
        if len(page) < 10:
            return rows
"""
CSV = """\
import csv
def table(path):
    return list(csv.DictReader(tools.file_system(action="read", path=path)["content"].splitlines()))
"""


@dataclass(frozen=True, slots=True)
class ToolTask:
    """A task.

    Attributes:
        message: What the user asks for.
        program: Python code that calls tools as `tools.NAME(…)`, and assigns the answer to `answer`.
        expected: Returns the right answer for the original records.
    """

    message: str
    program: str
    expected: Callable[[Tables], Any]


def rows_with(rows: list[Row], **fields: Any) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def row_of(rows: list[Row], number: int) -> Row:
    """Return the row with an id."""
    return next(row for row in rows if row["id"] == number)


def names_of(rows: list[Row]) -> list[str]:
    """Return the names of rows."""
    return [row["name"] for row in rows]
