"""requirements.lock pins a tested version of every dependency, and contains no address of a package index."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
LOCK = (REPOSITORY / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]

pytestmark = pytest.mark.spec("DOC-4")


def locked() -> list[Requirement]:
    return [Requirement(line) for line in LOCK.splitlines() if line and not line.startswith("#")]


def test_the_lock_file_names_no_index_and_pins_every_declared_dependency() -> None:
    assert "://" not in LOCK
    assert "--" not in LOCK
    pinned = {canonicalize_name(each.name): each for each in locked()}
    assert all(str(each.specifier).startswith("==") for each in locked())
    declared = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    names = {canonicalize_name(Requirement(each).name) for each in declared} - {"knackbox"}
    assert names - set(pinned) == set(), "run `make lock`"


def test_locked_versions_are_versions_that_the_project_accepts() -> None:
    accepted = {canonicalize_name(each.name): each.specifier for each in map(Requirement, PROJECT["dependencies"])}
    for each in locked():
        allowed = accepted.get(canonicalize_name(each.name))
        if allowed is not None:
            assert allowed.contains(str(each.specifier).removeprefix("=="), prereleases=True), (
                f"{each}: run `make lock`"
            )
