"""A skill that is imported without an author stays on probation. Its open questions are shown, and can be answered."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.portable.importing import import_skills
from acquired_skills.store.skill_store import SkillStore
from engine import Engine
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import here
from tests.interfaces.terminal import at_terminal
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("GATE-2")


def weak_skill(folder: Path) -> Path:
    """Return a folder with an Agent Skill whose tests prove too little."""
    offered = proposal(body="return 100 if number > 99 else number + 1")
    for path, text in {
        "SKILL.md": "---\nname: add-one\ndescription: Adds one to a whole number, up to 100.\n---\n\nText.\n",
        "scripts/add_one.py": offered.code,
        "tests/test_add_one.py": offered.tests,
    }.items():
        file = folder / "add-one" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "add-one"


def test_list_and_show_display_the_number_of_open_questions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = str(tmp_path / "home")
    assert here(capfd, "--home", home, "skills", "import", str(weak_skill(tmp_path))).code == 0
    (row,) = here(capfd, "--home", home, "skills", "list", "--json").last
    assert row["state"] == "probation"
    assert row["open_questions"] > 0
    mark = f"probation, {row['open_questions']} open question"
    assert mark in here(capfd, "--home", home, "skills", "list").out
    assert mark in here(capfd, "--home", home, "skills", "show", "add_one").out


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_sees_open_questions_which_successful_calls_do_not_remove(
    tmp_path: Path, box: NamespaceSandbox
) -> None:
    weak_skill(tmp_path)
    async with Engine.open(tmp_path / "home", sandbox=box, environ={}) as engine:
        await import_into(engine, tmp_path / "add-one")
        for number in range(12):
            assert (await engine.call("add_one", {"number": number})).success
        listed = await engine.call("manage_skills", {"action": "list"})
        assert re.search(r"add_one \(version 1, probation, \d+ open questions?, 100%", listed.text)
        assert listed.output[0]["open_questions"] > 0
    assert SkillStore(tmp_path / "home" / "acquired_skills").read("add_one").state.value == "probation"


async def import_into(engine: Engine, folder: Path) -> None:
    library = engine.need(SkillLibrary)
    (brought,) = await import_skills(folder, library, provenance={"by": "test"})
    assert brought.outcome == "admitted", brought.text


def right_answers(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "result": min(each["arguments"]["number"] + 1, 100)} for each in questions]


@pytest.mark.spec("GATE-8")
def test_right_answers_from_a_file_lift_the_mark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "answers.json"
    assert here(capfd, "--home", home, "skills", "import", str(weak_skill(tmp_path))).code == 0
    shown = here(capfd, "--home", home, "skills", "questions", "add_one", "--json")
    assert shown.code == 0
    assert shown.last["questions"]
    assert shown.last["open_questions"] == len(shown.last["questions"])
    file.write_text(json.dumps(right_answers(shown.last["questions"])))
    answered = here(capfd, "--home", home, "skills", "questions", "add_one", "--answers", str(file))
    assert answered.code == 0
    assert "add_one version 2 has no open questions" in answered.out
    (row,) = here(capfd, "--home", home, "skills", "list", "--json").last
    assert (row["version"], row["open_questions"]) == (2, 0)
    again = here(capfd, "--home", home, "skills", "questions", "add_one", "--answers", str(file))
    assert again.code == 1
    assert "no open questions" in again.err
    assert "imported add-one" in here(capfd, "--home", home, "skills", "show", "add_one").out


@pytest.mark.spec("GATE-8")
def test_a_wrong_answer_is_a_question_without_the_result_and_changes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "answers.json"
    assert here(capfd, "--home", home, "skills", "import", str(weak_skill(tmp_path))).code == 0
    file.write_text('[{"arguments": {"number": 40}, "result": 39}]')
    refused = here(capfd, "--home", home, "skills", "questions", "add_one", "--answers", str(file))
    assert refused.code == 1
    assert "You expect `39` from `add_one(number=40)`; the code gives another result." in refused.out
    assert "41" not in refused.out
    (row,) = here(capfd, "--home", home, "skills", "list", "--json").last
    assert row["version"] == 1
    assert row["open_questions"] > 0


@pytest.mark.spec("GATE-8", "GATE-7")
def test_a_person_at_the_terminal_is_asked_the_open_questions_one_by_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert here(capfd, "--home", str(home), "skills", "import", str(weak_skill(tmp_path))).code == 0

    def answer(shown: str) -> str:
        (number,) = re.findall(r"add_one\(number=(-?\d+)\)", shown)
        return f"{min(int(number) + 1, 100)}\n"

    words = ("skills", "questions", "add_one")
    code, shown = at_terminal(home, *words, "--no-input", prompt="\n> ", answer=answer)
    assert code == 0, shown
    assert "should these calls return?" in shown
    for _ in range(2):  # the second time, nothing is asked
        code, shown = at_terminal(home, *words, prompt="\n> ", answer=answer)
        assert code == 0, shown
        assert "add_one version 2 has no open questions" in shown


@pytest.mark.spec("GATE-8")
@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_answers_open_questions_with_manage_skills(tmp_path: Path, box: NamespaceSandbox) -> None:
    weak_skill(tmp_path)
    async with Engine.open(tmp_path / "home", sandbox=box, environ={}) as engine:
        await import_into(engine, tmp_path / "add-one")
        asked = await engine.call("manage_skills", {"action": "questions", "name": "add_one"})
        assert asked.output["questions"]
        wrong = [{"arguments": {"number": 40}, "result": 39}]
        refused = await engine.call("manage_skills", {"action": "questions", "name": "add_one", "answers": wrong})
        assert refused.failure is not None
        assert refused.failure.reason == "questions_open"
        assert "Which of the two is right?" in refused.text
        assert "41" not in refused.text
        answers = right_answers(asked.output["questions"])
        done = await engine.call("manage_skills", {"action": "questions", "name": "add_one", "answers": answers})
        assert done.success, done.text
        assert (done.output["version"], done.output["open_questions"]) == (2, 0)


@pytest.mark.spec("GATE-8")
def test_questions_of_a_disabled_skill_are_shown_but_not_answered(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "answers.json"
    assert here(capfd, "--home", home, "skills", "import", str(weak_skill(tmp_path))).code == 0
    assert here(capfd, "--home", home, "skills", "disable", "add_one").code == 0
    shown = here(capfd, "--home", home, "skills", "questions", "add_one", "--json").last
    file.write_text(json.dumps(right_answers(shown["questions"])))
    refused = here(capfd, "--home", home, "skills", "questions", "add_one", "--answers", str(file))
    assert refused.code == 1
    assert "is disabled" in refused.err
    (row,) = here(capfd, "--home", home, "skills", "list", "--json").last
    assert (row["version"], row["state"]) == (1, "disabled")
