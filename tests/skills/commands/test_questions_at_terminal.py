"""`knackbox skills add` asks the person at the terminal for results if the tests prove too little."""

import re
from pathlib import Path

import pytest

from tests.interfaces.terminal import at_terminal
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("GATE-7")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    offered = proposal(body="return 100 if number > 99 else number + 1")
    (tmp_path / "add_one.py").write_text(offered.code)
    (tmp_path / "tests.py").write_text(offered.tests)
    description = "Adds one to a whole number, but never gives more than 100."
    return ["skills", "add", str(tmp_path / "add_one.py"), "--tests", str(tmp_path / "tests.py"), "-d", description]


def test_the_person_at_the_terminal_answers_and_the_skill_is_admitted(tmp_path: Path, words: list[str]) -> None:
    def answer(shown: str) -> str:
        (number,) = re.findall(r"add_one\(number=(-?\d+)\)", shown)
        return f"{min(int(number) + 1, 100)}\n"

    code, shown = at_terminal(tmp_path / "home", *words, prompt="\n> ", answer=answer)
    assert code == 0, shown
    assert "`add_one` was proposed as a skill" in shown
    assert "version 1 is admitted" in shown


@pytest.mark.parametrize("typed", ["\n", "\x04"])
def test_without_answers_the_refusal_contains_the_questions(tmp_path: Path, words: list[str], typed: str) -> None:
    code, shown = at_terminal(tmp_path / "home", *words, prompt="\n> ", answer=lambda _: typed)
    assert code == 1
    assert '{"arguments": {"number": ' in shown
    assert ("2 of " in shown) == (typed == "\n")  # the end of input declines the whole form
