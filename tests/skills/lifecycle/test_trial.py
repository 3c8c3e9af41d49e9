"""A skill replaces another one for the same purpose only after a trial on the same inputs (SKILL-13)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.model.skill import SkillKind, SkillState
from engine import Engine
from engine.contract.result import ToolResult
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import here
from tests.skills.commands.test_audit import stored
from tests.skills.parts import opened_library, proposal

pytestmark = pytest.mark.spec("SKILL-13")
CALLS = "".join(f"    assert NAME({number}) == {number + 1}\n" for number in (1, 20))


def asserting(name: str, calls: str) -> str:
    return f"from {name} import {name}\n\n\ndef test_adds():\n{calls.replace('NAME', name)}"


async def skills(home: Path) -> None:
    """Create three skills for one purpose: one is wrong from 10 on, one is correct, and one fails at 0."""
    old = proposal("add_old", "return number + 1 if number < 10 else number + 2", "")
    new = proposal("add_new", "return number + 1", asserting("add_new", CALLS))
    bad = proposal("add_bad", "return number + number // number", asserting("add_bad", CALLS))
    zero = proposal("add_zero", "return number + 1", asserting("add_zero", "    assert NAME(0) == 1\n"))
    await stored(home, [(one, SkillKind.CODE) for one in (old, new, bad, zero)])


def test_a_trial_shows_differences_and_only_a_skill_that_is_not_worse_replaces_another(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "data"
    asyncio.run(skills(home))

    def run(*words: str) -> Any:
        return here(capfd, "--home", str(home), "skills", *words)

    assert run("correct", "add_old", '{"number": 30}', "31").code == 0
    found = run("trial", "add_old", "add_new", "--json").last
    differences = {one["arguments"]["number"]: one for one in found["differences"]}
    assert set(differences) == {20, 30}
    assert found["tried"] == 3
    assert (differences[20]["old"], differences[20]["new"], differences[20]["right"]) == (
        "returns 22",
        "returns 21",
        "",
    )
    assert (differences[30]["right"], differences[30]["worse"]) == ("31", False)
    failing = run("trial", "add_zero", "add_bad", "--replace", "--json")
    assert (failing.code, "is worse on 1 of 3 inputs" in failing.last["why_not"]) == (1, True)
    wrong = run("trial", "add_new", "add_old", "--replace")
    assert (wrong.code, "was not replaced" in wrong.err) == (
        1,
        True,
    )  # the old skill is wrong on the corrected call, too
    replaced = run("trial", "add_old", "add_new", "--replace")
    assert (replaced.code, "add_new replaces it" in replaced.out, "returns 22" in replaced.out) == (0, True, True)

    async def states() -> tuple[dict[str, SkillState], list[str]]:
        async with opened_library(home) as library:
            corrected = library.track.corrected.of("add_new")
            return {one.name: one.state for one in await library.skills()}, [one.right for one in corrected]

    by_name, inherited = asyncio.run(states())
    assert (by_name["add_old"], by_name["add_new"].listed) == (SkillState.DISABLED, True)
    assert inherited == ["31"]
    assert run("trial", "add_new", "add_new").code == 1


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.spec("SKILL-11")
async def test_an_agent_compares_and_replaces_a_skill_with_its_past_calls(
    tmp_path: Path, box: NamespaceSandbox
) -> None:
    home = tmp_path / "data"
    await skills(home)
    async with Engine.open(home, sandbox=box) as engine:

        async def manage(action: str, name: str, other: str) -> ToolResult:
            return await engine.call("manage_skills", {"action": action, "name": name, "other": other})

        assert (await engine.call("add_old", {"number": 50})).output == 52
        await engine.audit()  # ensures that the call is recorded
        tried = await manage("trial", "add_old", "add_new")
        assert "differ on 2 of 3 inputs" in tried.text
        assert "(number=50): `add_old` returns 52, `add_new` returns 51" in tried.text
        worse = await manage("replace", "add_zero", "add_bad")
        assert (worse.success, "ZeroDivisionError" in worse.error) == (False, True)
        assert (await manage("replace", "add_old", "add_new")).success
        assert "is disabled" in (await engine.call("add_old", {"number": 1})).error
