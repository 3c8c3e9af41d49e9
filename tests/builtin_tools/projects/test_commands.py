"""`knackbox projects` for people."""

from pathlib import Path

import pytest

from tests.interfaces.cli import Ran, here

pytestmark = [pytest.mark.slow, pytest.mark.spec("JOB-3")]


def projects(capfd: pytest.CaptureFixture[str], home: Path, *arguments: str) -> Ran:
    return here(capfd, "--home", str(home), "projects", *arguments)


def test_a_project_is_added_worked_on_and_finished(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    added = projects(capfd, tmp_path, "add", "site", "--goal", "A site.", "--task", "Draft", "--start")
    assert added.code == 0, added.err
    project_id = added.out.strip()
    assert projects(capfd, tmp_path, "task", "site", "Publish", "--needs", "1").code == 0
    refused = projects(capfd, tmp_path, "set-task", "site", "2", "--state", "done")
    assert (refused.code, "waits for 1" in refused.err) == (2, True)
    for number in ("1", "2"):
        assert projects(capfd, tmp_path, "set-task", "site", number, "--state", "done").code == 0
    assert projects(capfd, tmp_path, "note", "site", "It works.").code == 0
    assert projects(capfd, tmp_path, "link", "site", "file", "site/index.html").code == 0
    job = ("jobs", "add", "daily", "every day at 9", "--message", "Check.", "--project", "site")
    assert here(capfd, "--home", str(tmp_path), *job).code == 0
    shown = projects(capfd, tmp_path, "show", project_id, "--json").last
    assert [task["state"] for task in shown["tasks"]] == ["done", "done"]
    assert (shown["jobs"][0]["name"], shown["runs"]) == ("daily", [])
    text = projects(capfd, tmp_path, "show", "site").out
    assert "It works." in text
    assert "file site/index.html" in text
    assert "2 of 2 tasks done" in projects(capfd, tmp_path, "finish", "site").err
    assert "2/2" in projects(capfd, tmp_path, "list").out
    assert projects(capfd, tmp_path, "list", "--user", "bob", "--json").last == []
    assert projects(capfd, tmp_path, "delete", "site").code == 0
    gone = projects(capfd, tmp_path, "show", "site")
    assert (gone.code, "There is no project 'site'" in gone.err) == (2, True)
