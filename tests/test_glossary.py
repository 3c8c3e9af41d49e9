"""docs/glossary.md has one word for each concept, and no two classes have the same name."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from acquired_skills.model.parsed import parse_source

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("sandbox", "engine", "acquired_skills", "builtin_tools")
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| `(?P<path>[\w.]+)` \|$", re.MULTILINE)

pytestmark = pytest.mark.spec("DOC-2")


@cache
def classes() -> list[tuple[str, str]]:
    """Return (name, module) of every class."""
    found = []
    for package in PACKAGES:
        for file in sorted((REPOSITORY / package).rglob("*.py")):
            module = ".".join(file.relative_to(REPOSITORY).with_suffix("").parts)
            tree = parse_source(file.read_text("utf-8"))
            found += [(node.name, module) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return found


def is_module(path: str) -> bool:
    place = REPOSITORY.joinpath(*path.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def terms() -> list[tuple[str, str]]:
    """Return (term, path) of every row of the glossary."""
    text = (REPOSITORY / "docs" / "glossary.md").read_text("utf-8")
    found = [(row["term"], row["path"]) for row in ROW.finditer(text)]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith(("| term", "|---"))]
    assert len(found) == len(lines), "a row of docs/glossary.md is not of the form '| term | meaning | `path` |'"
    return found


def test_every_class_and_module_that_the_glossary_names_exists() -> None:
    known = {f"{module}.{name}" for name, module in classes()}
    assert len(terms()) > 50
    assert [f"{term}: {path}" for term, path in terms() if path not in known and not is_module(path)] == []


def test_a_term_is_defined_once() -> None:
    names = [term for term, _ in terms()]
    assert sorted(set(names)) == sorted(names)


def test_a_new_class_name_is_not_one_that_another_module_has() -> None:
    places: dict[str, set[str]] = {}
    for name, module in classes():
        places.setdefault(name, set()).add(module)
    assert {name: sorted(modules) for name, modules in places.items() if len(modules) > 1} == {}
