"""`make check`, the commit hooks and CI run the same checks, and what CONTRIBUTING.md names exists."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parents[1]
MAKEFILE = (REPOSITORY / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]

pytestmark = pytest.mark.spec("DOC-5")


def read_yaml(path: str) -> Any:
    return YAML(typ="safe").load((REPOSITORY / path).read_text("utf-8"))


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert match, f"the Makefile has no target {target}"
    return [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in match[1].splitlines()]


def test_the_commit_hooks_run_what_make_check_runs_and_download_nothing() -> None:
    repositories = read_yaml(".pre-commit-config.yaml")["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert [hook["entry"] for hook in hooks] == recipe("check")
    assert {hook["language"] for hook in hooks} == {"system"}


def test_ci_runs_everything_once_and_the_fast_tests_on_every_other_version_of_python() -> None:
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    assert any(".ci/run" in step.get("run", "") for step in jobs["full"]["steps"])
    assert any("make check test-fast" in step.get("run", "") for step in jobs["fast"]["steps"])
    versions = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)]
    full = next(step["with"]["python-version"] for step in jobs["full"]["steps"] if "with" in step)
    assert sorted([full, *jobs["fast"]["strategy"]["matrix"]["python-version"]]) == sorted(versions)


def test_issue_forms_can_be_read_and_name_their_fields() -> None:
    for form in ("bug_report", "feature_request"):
        content = read_yaml(f".github/ISSUE_TEMPLATE/{form}.yml")
        assert content["name"]
        assert content["description"]
        assert all(field["type"] == "markdown" or field["attributes"]["label"] for field in content["body"])


def test_every_target_that_contributing_names_exists() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    commands = re.findall(r"`make ([^`]+)`|^    make (.*)$", text, re.MULTILINE)
    named = {word for command in commands for word in "".join(command).split() if re.fullmatch(r"[a-z-]+", word)}
    assert {"setup", "check", "test-fast", "lock"} <= named
    assert named - set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)) == set()


def test_links_to_files_lead_somewhere() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    assert targets
    assert [each for each in targets if not (REPOSITORY / each).exists()] == []
