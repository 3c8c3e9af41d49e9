"""The functions, files and folders that docs/architecture.md names exist."""

import ast
import re
from pathlib import Path

from acquired_skills.model.parsed import parse_source

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r'"(?P<name>[\w.]+)[^"<]*<br/>(?P<file>[\w/.]+)"')
PACKAGES = ("engine", "acquired_skills", "sandbox", "builtin_tools")


def definitions(path: Path) -> set[str]:
    """Return the names of the functions, classes and methods of a file: ``call``, ``Pipeline``, ``Pipeline.call``."""
    found = set()
    for node in parse_source(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(f"{node.name}.{method.name}" for method in methods)
    return found


def test_every_step_of_a_flow_is_a_function_of_the_file_that_is_named() -> None:
    steps = STEP.findall(PAGE)
    assert len(steps) > 40
    wrong = [f"{name} in {file}" for name, file in steps if name not in definitions(ROOT / file)]
    assert not wrong


def test_every_folder_of_a_package_has_a_row_in_its_table() -> None:
    for package in PACKAGES:
        table = PAGE.partition(f"\n### {package}\n")[2].partition("\n#")[0]
        named = set(re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE))))
        folders = {each.parent.name for each in (ROOT / package).glob("*/__init__.py")}
        assert folders == {each for each in named if not each.endswith(".py")}, package


def test_every_file_and_picture_that_is_named_exists() -> None:
    files = re.findall(r"`((?:engine|sandbox|acquired_skills|builtin_tools|scripts)/[\w/]+\.py)`", PAGE)
    links = re.findall(r"\]\(([\w/.-]+)\)", PAGE)
    assert files
    assert [each for each in files if not (ROOT / each).is_file()] == []
    assert [each for each in links if not (ROOT / "docs" / each).exists()] == []
