"""A skill that is imported without an author stays on probation, and lists show its open questions."""

import re
from pathlib import Path

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.portable.importing import import_skills
from acquired_skills.store.skill_store import SkillStore
from engine import Engine
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import here
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
