"""`knackbox undo` shows changes, asks, undoes them, and can take that back."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli import Ran, here
from tests.interfaces.terminal import at_terminal

pytestmark = [pytest.mark.spec("CODE-9"), pytest.mark.slow]
CODE = "open('notes.txt', 'w').write('agent\\n')\nopen('new\\x1b[31m.txt', 'w').write('new')\nimport os\nos.remove('old.bin')"


class Home:
    """A home in which a call has changed the workspace."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        (self.workspace / "notes.txt").write_text("person\n")
        (self.workspace / "old.bin").write_bytes(b"\0\1")
        self._capfd = capfd
        arguments = json.dumps({"language": "python", "code": CODE})
        assert self.run("call", "execute", "--args", arguments).code == 0
        (call,) = self.run("undo", "--json").last["undoable"]
        self.call: str = call["id"]

    def run(self, *arguments: str) -> Ran:
        return here(self._capfd, "--home", str(self.folder), *arguments)

    def names(self) -> set[str]:
        return {path.name for path in self.workspace.iterdir()}


@pytest.fixture
def home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Home:
    return Home(tmp_path, capfd)


def test_changes_are_shown_undone_and_redone(home: Home) -> None:
    listed = home.run("undo")
    assert home.call in listed.out
    assert "execute" in listed.out
    refused = home.run("undo", home.call)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert "-agent" in refused.out
    assert "+person" in refused.out
    assert "create   old.bin (2 bytes)" in refused.out
    assert "\x1b" not in refused.out
    assert (home.workspace / "notes.txt").read_text() == "agent\n"

    done = home.run("undo", home.call, "--yes")
    assert (done.code, "undone: 3 changes" in done.err) == (0, True), done
    assert (home.workspace / "notes.txt").read_text() == "person\n"
    assert home.names() == {"notes.txt", "old.bin"}

    undo_id = next(
        each["id"] for each in home.run("undo", "--list", "--json").last["undoable"] if each["kind"] == "undo"
    )
    assert undo_id in done.err
    assert home.run("undo", undo_id, "-y").code == 0
    assert home.names() == {"notes.txt", "new\x1b[31m.txt"}


def test_json_undoes_nothing_without_yes_and_names_conflicts(home: Home) -> None:
    (home.workspace / "notes.txt").write_text("person again\n")
    shown = home.run("undo", home.call, "--json")
    (plan,) = shown.last["workspaces"]
    assert {each["path"]: (each["action"], each["step"]) for each in plan["changes"]} == {
        "new\x1b[31m.txt": ("delete", "restore"),
        "notes.txt": ("restore", "changed_since"),
        "old.bin": ("create", "restore"),
    }
    assert plan["undo"] is None
    assert "old.bin" not in home.names()
    (done,) = home.run("undo", home.call, "--json", "--yes").last["workspaces"]
    assert done["undo"].startswith("undo-")
    assert "old.bin" in home.names()
    assert (home.workspace / "notes.txt").read_text() == "person again\n"
    again = home.run("undo", home.call, "-y")
    assert (again.code, "nothing to undo" in again.err) == (0, True)
    assert "Left as they are" in again.out


def test_an_unknown_id_is_an_error_of_one_line(home: Home) -> None:
    ran = home.run("undo", "nothing")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "knackbox undo --list" in ran.err


@pytest.mark.parametrize(("answer", "undone"), [("y", True), ("n", False)])
def test_at_a_terminal_a_person_is_asked(home: Home, answer: str, undone: bool) -> None:
    prompt = "Undo these 3 changes? [y/N]: "
    code, shown = at_terminal(home.folder, "undo", home.call, prompt=prompt, answer=lambda _: f"{answer}\n")
    assert code == 0, shown
    assert ("old.bin" in home.names()) is undone
