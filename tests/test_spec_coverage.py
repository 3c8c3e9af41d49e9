"""The table in docs/spec.md and the tests agree: each built row has a test, and each test names a known row."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquired_skills.model.parsed import parse_source

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (?P<id>[A-Z]+-\d+) \| (?P<behaviour>(?:\\\||[^|])+) \| (?P<state>\w+) \|$")


def rows(table: str) -> dict[str, str]:
    """Return the state of every row by its id. A malformed row or a repeated id is an error."""
    found: dict[str, str] = {}
    for number, line in enumerate(table.splitlines(), 1):
        if not re.match(r"\|\s*[A-Z]+-\d", line):
            continue
        match = ROW.match(line)
        assert match, f"docs/spec.md:{number}: not of the form '| ID | behaviour | state |'"
        assert match["id"] not in found, f"docs/spec.md:{number}: {match['id']} is used twice"
        assert match["state"] in {"built", "planned"}, f"docs/spec.md:{number}: state is built or planned"
        found[match["id"]] = match["state"]
    return found


def is_spec_mark(node: ast.AST) -> bool:
    """Return whether a node is `pytest.mark.spec(...)`: a decorator, in `pytestmark`, or in a `pytest.param`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec"


def named(source: str, path: str = "test.py") -> Iterator[tuple[str, str]]:
    """Yield (id, place) of every row that a test file names. The ids must be literals, or they cannot be checked."""
    for node in ast.walk(parse_source(source)):
        if not is_spec_mark(node):
            continue
        assert isinstance(node, ast.Call)
        place = f"{path}:{node.lineno}"
        for argument in node.args:
            assert isinstance(argument, ast.Constant), f"{place}: write row ids as literals"
            assert isinstance(argument.value, str), f"{place}: a row id is a string"
            yield argument.value, place
        assert node.args, f"{place}: a spec mark names at least one row"


def disagreements(table: dict[str, str], marks: list[tuple[str, str]]) -> list[str]:
    """Return the disagreements between the table and the tests, one line each."""
    proved = {row for row, _ in marks}
    unknown = [f"{place} names {row}, which is not in docs/spec.md" for row, place in marks if row not in table]
    unproved = [
        f"{row} is built, but no test names it"
        for row, state in table.items()
        if state == "built" and row not in proved
    ]
    return unknown + unproved


def test_every_built_row_has_a_test_and_every_test_names_a_known_row() -> None:
    table = rows((ROOT / "docs" / "spec.md").read_text("utf-8"))
    tests = sorted((ROOT / "tests").rglob("*.py"))
    marks = [mark for file in tests for mark in named(file.read_text("utf-8"), str(file.relative_to(ROOT)))]
    assert len(table) > 100
    assert disagreements(table, marks) == []


def test_a_built_row_without_a_test_is_reported() -> None:
    table = rows("| BOX-1 | a box | built |\n| BOX-2 | closed | planned |")
    assert disagreements(table, []) == ["BOX-1 is built, but no test names it"]


def test_a_test_that_names_no_row_is_reported() -> None:
    marks = list(named('@pytest.mark.spec("BOX-1", "BOX-9")\ndef test_it(): ...'))
    assert disagreements({"BOX-1": "built"}, marks) == ["test.py:1 names BOX-9, which is not in docs/spec.md"]


def test_marks_on_a_module_and_on_a_parameter_count() -> None:
    source = 'pytestmark = [pytest.mark.spec("BOX-1")]\nP = pytest.param(1, marks=pytest.mark.spec("BOX-2"))'
    assert {row for row, _ in named(source)} == {"BOX-1", "BOX-2"}


@pytest.mark.parametrize(
    "line", ["| BOX-1 | a | b | built |x", "| BOX-1 | a | b | built |", "| BOX-1 | no state |", "| BOX-1 | a | done |"]
)
def test_a_malformed_row_is_refused_and_not_skipped(line: str) -> None:
    with pytest.raises(AssertionError, match=r"docs/spec\.md:1"):
        rows(line)


def test_a_repeated_row_is_refused() -> None:
    with pytest.raises(AssertionError, match="twice"):
        rows("| BOX-1 | a | built |\n| BOX-1 | a | built |")
