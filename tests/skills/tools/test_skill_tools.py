"""`create_skill` and `manage_skills`, called through the engine's pipeline, as a model calls them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from engine import Engine
from engine.contract.failure import FailureClass
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS, proposal

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def engine(tmp_path: Path, box: NamespaceSandbox) -> AsyncIterator[Engine]:
    async with Engine.open(tmp_path, sandbox=box, environ=ENVIRON_WITHOUT_MUTANTS) as opened:
        yield opened


async def create(engine: Engine, turn: Turn | None = None, **changes: Any) -> ToolResult:
    offered = proposal(**changes)
    arguments = {"name": offered.name, "description": offered.description, "code": offered.code, "tests": offered.tests}
    return await engine.call("create_skill", {**arguments, "examples": ["what comes after seven"]}, turn)


async def manage(engine: Engine, action: str, **more: Any) -> ToolResult:
    return await engine.call("manage_skills", {"action": action, **more})


@pytest.mark.spec("SKILL-2", "SKILL-3")
async def test_missing_type_hints_are_inferred_and_named_in_the_result(engine: Engine) -> None:
    code = 'def day_number(day, scale, extra=None):\n    """Count days."""\n    return scale * day.toordinal()\n'
    tests = (
        "from datetime import date\nfrom day_number import day_number\n\n\ndef test_days():\n"
        "    assert day_number(date(1, 1, 3), 2) == 6\n"
    )
    made = await create(engine, name="day_number", code=code, tests=tests)
    assert made.success, made.text
    assert "inferred from the calls of the tests: `day: datetime.date`, `scale: int`." in made.text
    assert "`extra` has no type hint, so its schema accepts any value." in made.text
    assert (await engine.call("day_number", {"day": "0001-01-04", "scale": 1})).output == 4
    assert "day" in (await engine.call("day_number", {"day": "soon", "scale": 1})).error
    shown = await manage(engine, "show", name="day_number")
    assert "`scale: int`" in shown.output["admission"]["notes"][0]


@pytest.mark.spec("SKILL-1", "SKILL-11", "SKILL-12", "CALL-3")
async def test_a_skill_can_be_created_called_shown_and_deleted(engine: Engine) -> None:
    made = await create(engine)
    assert made.success, made.text
    assert made.output["version"] == 1
    assert "add_one(number: integer)" in made.text
    assert made.side_effects == ("created:skill:add_one:1",)
    assert (await engine.call("add_one", {"number": 41})).output == 42
    wrong = await engine.call("add_one", {"numbr": "x"})
    assert not wrong.success
    assert "number" in wrong.error
    listed = await manage(engine, "list")
    assert [one["name"] for one in listed.output] == ["add_one"]
    assert "100% of 1 calls" in listed.text
    assert "def add_one" in (await manage(engine, "show", name="add_one")).text
    assert (await manage(engine, "delete", name="add_one")).success
    assert not (await engine.call("add_one", {"number": 1})).success
    assert "no skills yet" in (await manage(engine, "list")).text
    assert (await manage(engine, "restore", name="add_one")).success
    assert (await engine.call("add_one", {"number": 1})).output == 2


@pytest.mark.spec("SKILL-11")
async def test_the_next_turn_is_mentioned_only_if_there_are_turns(engine: Engine) -> None:
    made = await create(engine)
    assert made.success, made.text
    assert "it is on the list of tools now" in made.text
    changed = await create(engine, Turn(query="teach me"), description="Adds one to a number, once more.")
    assert changed.success, changed.text
    assert "listed from the next turn on" in changed.text


@pytest.mark.spec("SKILL-4", "FAIL-4")
async def test_a_refusal_tells_the_model_everything_to_change(engine: Engine) -> None:
    refused = await create(engine, tests="from add_one import add_one\n\ndef test_it():\n    assert add_one\n")
    assert not refused.success
    assert refused.failure is not None
    assert (refused.failure.failure_class, refused.failure.reason) == (FailureClass.DIAGNOSTIC, "proposal_refused")
    assert "test_it proves nothing" in refused.error
    assert (await create(engine)).success


@pytest.mark.spec("SKILL-11")
async def test_every_action_works_and_missing_arguments_are_named(engine: Engine) -> None:
    await create(engine)
    await create(engine, description="Adds one to any whole number.")
    assert [one["version"] for one in (await manage(engine, "history", name="add_one")).output] == [1, 2]
    assert (await manage(engine, "rollback", name="add_one", version=1)).output["version"] == 3
    assert (await manage(engine, "disable", name="add_one")).output["state"] == "disabled"
    assert "is disabled" in (await engine.call("add_one", {"number": 1})).error
    assert (await manage(engine, "enable", name="add_one")).output["state"] == "probation"
    assert (await engine.call("add_one", {"number": 1})).success
    assert (await manage(engine, "stats", name="add_one")).output[0]["successes"] == 1
    assert "needs the name of a skill" in (await manage(engine, "show")).error
    assert "There is no skill `nobody`" in (await manage(engine, "delete", name="nobody")).error
    assert not (await manage(engine, "explode")).success


@pytest.mark.spec("LIST-3", "LIST-4", "LIST-5")
async def test_a_turn_lists_the_skills_that_its_query_finds(engine: Engine) -> None:
    await create(engine)
    definitions = await engine.get_active_tool_definitions(Turn(), query="what number comes after seven?")
    text = json.dumps([str(one) for one in definitions])
    assert "add_one" in text


async def test_the_descriptions_route_a_model_to_the_right_tool(engine: Engine) -> None:
    listed = await engine.list_tools(Turn())
    manage_spec = next(tool.spec for tool in listed.tools if tool.spec.name == "manage_skills")
    assert "Show me your skills" in manage_spec.description
