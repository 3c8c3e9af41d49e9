"""The skills of the demo, as a model would write them: code, tests and example requests."""

from dataclasses import dataclass
from typing import Any

GROUP_MEDIAN_CODE = '''import csv
from statistics import median


def group_median(path: str, group: str, column: str) -> dict[str, float]:
    """Give the median of a numeric column of a CSV file for each group of rows, leaving out missing values.

    Args:
        path: The CSV file, with a header line.
        group: The column whose values make the groups.
        column: The column of numbers; empty cells and NA are left out.
    """
    values: dict[str, list[float]] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row[column] not in ("", "NA"):
                values.setdefault(row[group], []).append(float(row[column]))
    return {name: median(numbers) for name, numbers in sorted(values.items())}
'''
PROVES_NOTHING = """from group_median import group_median


def test_it_is_there():
    assert callable(group_median)
"""
PROVES_IT = """import pytest
from group_median import group_median


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("kind,size\\na,1\\na,NA\\na,4\\nb,10\\nb,\\nb,20\\nb,60\\n")
    return str(file)


def test_the_median_of_each_group_leaves_out_missing_values(rows):
    assert group_median(rows, "kind", "size") == {"a": 2.5, "b": 20.0}


def test_a_column_that_is_not_there_is_an_error(rows):
    with pytest.raises(KeyError):
        group_median(rows, "kind", "weight")
"""
COLLATZ_CODE = '''def collatz_steps(start: int) -> int:
    """Count the steps of the Collatz rule from a number down to 1.

    Args:
        start: The number to start from.
    """
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps
'''
COLLATZ_TESTS = """from collatz_steps import collatz_steps


def test_known_numbers():
    assert collatz_steps(1) == 0
    assert collatz_steps(6) == 8
    assert collatz_steps(27) == 111
"""


@dataclass(frozen=True, slots=True)
class Taught:
    """A small skill that is learned before the first scene, so that retrieval has something to choose from."""

    name: str
    description: str
    signature: str
    returns: str
    test: str

    def proposal(self) -> dict[str, Any]:
        """Return the arguments of `create_skill`."""
        code = f'def {self.name}{self.signature}:\n    """{self.description}"""\n    return {self.returns}\n'
        tests = f"from {self.name} import {self.name}\n\n\ndef test_it():\n    assert {self.test}\n"
        return {"name": self.name, "description": self.description, "code": code, "tests": tests}


EARLIER = (
    Taught(
        "celsius_to_fahrenheit",
        "Convert a temperature from degrees Celsius to degrees Fahrenheit.",
        "(celsius: float) -> float",
        "celsius * 9 / 5 + 32",
        "[celsius_to_fahrenheit(c) for c in (-40, 0.5, 100)] == [-40, 32.9, 212]",
    ),
    Taught(
        "word_count",
        "Count how often each word occurs in a text, ignoring case.",
        "(text: str) -> dict[str, int]",
        "{word: text.lower().split().count(word) for word in text.lower().split()}",
        "[word_count(t) for t in ('The cat the at', 'Dog', '')] == [{'the': 2, 'cat': 1, 'at': 1}, {'dog': 1}, {}]",
    ),
    Taught(
        "title_slug",
        "Turn a title into a slug for a web address: lower case, words joined by hyphens.",
        "(title: str) -> str",
        "'-'.join(title.lower().split())",
        "[title_slug(t) for t in (' Palmer  Station ', 'Biscoe', '')] == ['palmer-station', 'biscoe', '']",
    ),
    Taught(
        "is_leap_year",
        "Check whether a year of the Gregorian calendar is a leap year.",
        "(year: int) -> bool",
        "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        "[is_leap_year(y) for y in (1900, 2000, 2023, 2024)] == [False, True, False, True]",
    ),
)
