"""Turning functions of imported instructions into skills, at the terminal, with a file, and by an agent."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from engine import Engine
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import Ran, here
from tests.interfaces.terminal import at_terminal

pytestmark = pytest.mark.spec("SKILL-24")

SCRIPT = '''"""Sizes."""
import sys

LIMIT = 100


def next_size(number: int) -> int:
    """Return the number after the given one, but never more than 100."""
    return LIMIT if number >= LIMIT else number + 1


def unrelated(text: str) -> str:
    """Return a text in capitals."""
    return text.upper()


open(MARK, "w").write("the script ran")
'''
SKILL = "---\nname: size-tools\ndescription: Tools for sizes.\n---\n\nRun scripts/sizes.py.\n"


def instructions(folder: Path) -> Path:
    """Return a folder of instructions whose script leaves a file behind if it is ever run."""
    (folder / "size-tools" / "scripts").mkdir(parents=True)
    (folder / "size-tools" / "SKILL.md").write_text(SKILL)
    script = SCRIPT.replace("MARK", repr(str(folder / "ran")))
    (folder / "size-tools" / "scripts" / "sizes.py").write_text(script)
    return folder / "size-tools"


@pytest.fixture
def home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    home = tmp_path / "home"
    assert here(capfd, "--home", str(home), "skills", "import", str(instructions(tmp_path))).code == 0
    return home


@pytest.fixture
def prove(home: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Ran:
        return here(capfd, "--home", str(home), "skills", *arguments)

    return run


def result_of(number: int) -> int:
    return 100 if number >= 100 else number + 1


def answered(draft: dict[str, Any]) -> dict[str, Any]:
    calls = [{**each, "result": result_of(each["arguments"]["number"])} for each in draft["calls"]]
    calls.append({"arguments": {"number": 99}, "result": 100})
    calls.append({"arguments": {"number": 100}, "result": 100})
    calls.append({"arguments": {"number": 101}, "result": 100})
    return {**draft, "calls": calls}


def test_a_person_predicts_the_results_at_the_terminal_and_the_skill_is_admitted(home: Path, prove: Any) -> None:
    def answer(shown: str) -> str:
        (number,) = re.findall(r"next_size\(number=(-?\d+)\)", shown)
        return f"{result_of(int(number))}\n"

    code, shown = at_terminal(home, "skills", "prove", "size-tools", "next_size", prompt="\n> ", answer=answer)
    assert code == 0, shown
    assert "next_size version 1 is admitted" in shown
    found = prove("show", "next_size", "--json").last
    assert found["provenance"]["drafted_from"].startswith("size-tools/scripts/sizes.py, sha256 ")
    assert "unrelated" not in found["code"]
    assert not (home.parent / "ran").exists()


def test_a_draft_can_be_printed_completed_and_proposed_from_a_file(tmp_path: Path, prove: Any) -> None:
    listed = prove("prove", "size-tools", "--json").last
    assert [each["function"] for each in listed] == ["next_size", "unrelated"]
    assert "next_size" in prove("prove", "size-tools").out
    draft = prove("prove", "size-tools", "next_size", "--json").last
    assert len(draft["calls"]) >= 3
    assert "result" not in json.dumps(draft["calls"])
    file = tmp_path / "draft.json"
    file.write_text(json.dumps({**answered(draft), "calls": [{"arguments": {"number": 5}, "result": 7919}]}))
    refused = prove("prove", "size-tools", "--from", str(file))
    assert refused.code == 1
    assert "You expect result 7919 from `next_size(number=5)`; the code gives another result" in refused.err
    assert "== 6" not in refused.err + refused.out
    assert "assert 6" not in refused.err + refused.out
    file.write_text(json.dumps(answered(draft)))
    done = prove("prove", "size-tools", "--from", str(file))
    assert done.code == 0, done.err
    assert "next_size" in [each["name"] for each in prove("list", "--json").last]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("other-tools",), 2, "There are no instructions `other-tools`"),
        (("size-tools", "missing"), 2, "Functions that could become skills: next_size, unrelated"),
        (("size-tools", "next_size"), 2, "No results were given"),
    ],
)
def test_a_function_that_cannot_be_proved_gives_a_message_with_what_to_do(
    prove: Any, words: tuple[str, ...], code: int, says: str
) -> None:
    ran = prove("prove", *words)
    assert (ran.code, says in ran.err) == (code, True), ran.err


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_gets_a_draft_and_proposes_it_with_its_origin(tmp_path: Path, box: NamespaceSandbox) -> None:
    script = (instructions(tmp_path) / "scripts" / "sizes.py").read_bytes()
    async with Engine.open(tmp_path / "home", sandbox=box, environ={}) as engine:
        library = engine.need(SkillLibrary)
        library.instructions.add("size-tools", {"SKILL.md": SKILL.encode(), "scripts/sizes.py": script})
        listed = await engine.call("manage_skills", {"action": "draft", "name": "size-tools"})
        assert [each["function"] for each in listed.output] == ["next_size", "unrelated"]
        drafted = await engine.call("manage_skills", {"action": "draft", "name": "size-tools", "other": "next_size"})
        assert 'drafted_from="size-tools/scripts/sizes.py"' in drafted.text
        calls = answered(drafted.output)["calls"]
        checks = [f"    assert next_size({each['arguments']['number']}) == {each['result']}\n" for each in calls]
        proposal = {
            "name": "next_size",
            "description": drafted.output["description"],
            "code": drafted.output["code"],
            "tests": f"from next_size import next_size\n\n\ndef test_sizes():\n{''.join(checks)}",
        }
        wrong = await engine.call("create_skill", {**proposal, "drafted_from": "size-tools/scripts/other.py"})
        assert "have no function `next_size`" in wrong.text
        done = await engine.call("create_skill", {**proposal, "drafted_from": "size-tools/scripts/sizes.py"})
        assert done.success, done.text
        shown = await engine.call("manage_skills", {"action": "show", "name": "next_size"})
        assert shown.output["provenance"]["drafted_from"].startswith("size-tools/scripts/sizes.py, sha256 ")
    assert not (tmp_path / "ran").exists()
