"""The commands `knackbox skills …`, as a person runs them."""

from pathlib import Path

import pytest

from tests.interfaces.cli import Ran, here
from tests.skills.parts import proposal

EMPTY_TESTS = "from add_one import add_one\n\n\ndef test_it():\n    assert True\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    offered = proposal()
    (tmp_path / "add_one.py").write_text(offered.code)
    (tmp_path / "good.py").write_text(f"{offered.tests}    assert (add_one(0), add_one(-7)) == (1, -6)\n")
    (tmp_path / "empty.py").write_text(EMPTY_TESTS)
    return tmp_path


class Shell:
    def __init__(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.home, self.capfd = home, capfd

    def __call__(self, *arguments: str) -> Ran:
        return here(self.capfd, "--home", str(self.home / "data"), "skills", *arguments)

    def add(self, tests: str = "good.py", *more: str) -> Ran:
        files = str(self.home / "add_one.py"), "--tests", str(self.home / tests)
        return self("add", *files, "-d", "Adds one to a whole number.", *more)


@pytest.fixture
def skills(home: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(home, capfd)


@pytest.mark.spec("SKILL-3")
def test_adding_a_skill_prints_the_notes_of_its_admission(skills: Shell) -> None:
    code, tests = skills.home / "twice.py", skills.home / "test_twice.py"
    code.write_text(
        'def twice(number):\n    """Double a number.\n\n    Args:\n        number: it.\n    """\n    return number * 2\n'
    )
    tests.write_text(
        "from twice import twice\n\n\ndef test_it():\n    assert [twice(n) for n in (1, 0, -3, 7)] == [2, 0, -6, 14]\n"
    )
    added = skills("add", str(code), "--tests", str(tests), "-d", "Doubles a whole number.")
    assert "version 1 is admitted" in added.out, added.err
    assert "Note: These parameters have no type hint in the code" in added.err


@pytest.mark.spec("SKILL-11", "SKILL-10")
def test_the_commands_can_do_what_the_tools_do(skills: Shell) -> None:
    assert skills("list", "--json").last == []
    refused = skills.add("empty.py")
    assert refused.code == 1
    assert "test_it proves nothing" in refused.err
    assert skills.add("empty.py", "--json").last["problems"][0]["part"] == "red"
    assert "version 1 is admitted" in skills.add().out
    assert [one["name"] for one in skills("list", "--json").last] == ["add_one"]
    assert "add_one" in skills("list").out
    assert "def add_one" in skills("show", "add_one").out
    assert skills("show", "add_one", "--json").last["parameters"]["required"] == ["number"]
    assert skills("search", "increase a number", "--json").last[0]["name"] == "add_one"
    assert skills("disable", "add_one", "--json").last["state"] == "disabled"
    assert skills("enable", "add_one", "--json").last["state"] == "probation"
    assert skills("history", "add_one", "--json").last[0]["version"] == 1
    assert skills("stats", "--json").last == []
    assert skills("delete", "add_one").code == 0
    assert skills("list", "--json").last == []
    assert skills("restore", "add_one", "--json").last["version"] == 1
    assert skills("reindex", "--json").last["indexed"] == 1


def test_a_missing_skill_gives_a_one_line_message_and_exit_2(skills: Shell) -> None:
    for command in ("show", "delete", "disable", "enable", "restore", "rollback", "history"):
        ran = skills(command, "nobody")
        assert ran.code == 2, command
        assert "`nobody`" in ran.err
        assert ran.err.count("\n") == 1


@pytest.mark.spec("SKILL-10")
def test_a_damaged_skill_is_set_aside_and_reported_without_losing_files(skills: Shell, home: Path) -> None:
    skills.add()
    code = home / "data" / "acquired_skills" / "add-one" / "scripts" / "add_one.py"
    code.write_text("changed by hand")
    report = skills("verify", "--json")
    assert report.code == 3
    (aside,) = report.last["set_aside"]
    assert "was changed after it was admitted" in aside["reason"]
    assert Path(aside["kept"], "scripts", "add_one.py").read_text() == "changed by hand"
    again = skills("verify", "--json")
    assert (again.code, again.last["known"]) == (0, 0)


@pytest.mark.spec("SKILL-10")
def test_a_lost_database_is_rebuilt_by_reindex(skills: Shell, home: Path) -> None:
    skills.add()
    for path in (home / "data").glob("records.db*"):
        path.rename(home / path.name)
    assert skills("reindex", "--json").last["indexed"] == 1
    assert [one["name"] for one in skills("list", "--json").last] == ["add_one"]


@pytest.mark.spec("SKILL-11")
def test_control_characters_in_a_skill_do_not_reach_the_terminal(skills: Shell, home: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202e"
    code = home / "add_one.py"
    code.write_text(f"{code.read_text()}# {evil}\n")
    failing = f'from add_one import add_one\n\n\ndef test_it():\n    assert add_one(1) == 3, "{evil}"\n'
    (home / "failing.py").write_text(failing)
    good = home / "good.py"
    good.write_text(f"{good.read_text()}# {evil}\n")
    refused, admitted = skills.add("failing.py"), skills.add()
    assert (refused.code, admitted.code) == (1, 0)
    assert "owned" in refused.err
    shown, as_json = skills("show", "add_one"), skills("show", "add_one", "--json")
    assert "\\x1b]0;owned\\x07\\x9b2J\\u202e" in shown.out
    assert evil in as_json.last["code"]
    for said in (refused.err, admitted.out, shown.out, as_json.out, skills("list").out):
        assert all(each.isprintable() or each in "\n\t" for each in said)


@pytest.mark.spec("SKILL-15")
def test_a_search_finds_instructions_too(skills: Shell, home: Path) -> None:
    folder = home / "pdf-forms"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: pdf-forms\ndescription: Fill in PDF forms.\n---\nOpen the form.\n")
    assert skills("import", str(folder)).code == 0
    (row,) = skills("search", "fill in a PDF form", "--json").last
    assert (row["name"], row["state"], row["fit"] > 0.3) == ("pdf-forms", "instructions", True)
    assert "nothing fits" in skills("search", "the weather in Rome").err
