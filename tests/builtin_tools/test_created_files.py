"""A run reports the files that it created in the workspace: regular, visible, new, and a limited number."""

import os
from pathlib import Path

import pytest

from builtin_tools import created_files
from builtin_tools.created_files import MOST_NAMED, created_since, files_in
from engine import Engine

pytestmark = pytest.mark.spec("FACE-21")


@pytest.mark.parametrize("language_and_code", [
    ("python", "import os\nos.makedirs('made/deep')\nopen('made/deep/b.csv', 'w').write('x')\nopen('a.txt', 'w').write('x')"),
    ("bash", "mkdir -p made/deep; echo x > made/deep/b.csv; echo x > a.txt; echo more >> old.txt"),
])  # fmt: skip
async def test_execute_reports_the_files_that_its_code_created(
    tmp_path: Path, language_and_code: tuple[str, str]
) -> None:
    language, code = language_and_code
    async with Engine.open(tmp_path, environ={}) as engine:
        (tmp_path / "workspace" / "old.txt").write_text("old")
        first = await engine.call("execute", {"language": language, "code": code})
        assert first.side_effects == (f"executed:{language}", "created:a.txt", "created:made/deep/b.csv"), first
        again = await engine.call("execute", {"language": "bash", "code": "echo more >> a.txt; rm made/deep/b.csv"})
        assert again.side_effects == ("executed:bash",)


def test_hidden_files_links_and_unprintable_names_are_left_out(tmp_path: Path) -> None:
    before = files_in(tmp_path)
    (tmp_path / "plain.txt").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "m.pyc").touch()
    (tmp_path / "two\nlines").touch()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).touch()
    assert created_since(before, tmp_path) == ("plain.txt",)


def test_if_there_are_many_files_the_least_nested_ones_are_reported(tmp_path: Path) -> None:
    before = files_in(tmp_path)
    (tmp_path / "a").mkdir()
    for n in range(MOST_NAMED):
        (tmp_path / "a" / f"{n:02}").touch()
    (tmp_path / "z").touch()
    created = created_since(before, tmp_path)
    assert len(created) == MOST_NAMED
    assert created[:2] == ("z", "a/00")


def test_a_workspace_with_too_many_entries_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(created_files, "MOST_ENTRIES", 10)
    before = files_in(tmp_path)
    for n in range(11):
        (tmp_path / str(n)).touch()
    assert created_since(before, tmp_path) == ()
    assert files_in(tmp_path) is None
    assert created_since(None, tmp_path) == ()
