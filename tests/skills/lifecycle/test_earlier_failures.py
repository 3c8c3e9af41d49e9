"""A new version is tried on the inputs on which the current version failed in use."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from engine import Engine
from engine.contract.result import ToolResult
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-13")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, box: NamespaceSandbox) -> AsyncIterator[Engine]:
    environ = {**ENVIRON_WITHOUT_MUTANTS, "KNACKBOX_SKILLS_COMPARED": "0"}
    async with Engine.open(tmp_path_factory.mktemp("home"), sandbox=box, environ=environ) as opened:
        yield opened


async def create(engine: Engine, name: str, body: str, **more: Any) -> ToolResult:
    offered = proposal(name, body)
    given = {"name": name, "description": offered.description, "code": offered.code, "tests": offered.tests}
    made = await engine.call("create_skill", {**given, **more})
    assert made.success, made.error
    return made


async def failed(engine: Engine, name: str, *numbers: int) -> None:
    for number in numbers:
        assert not (await engine.call(name, {"number": number})).success


async def test_a_note_says_which_failures_are_fixed_and_which_remain(engine: Engine) -> None:
    await create(engine, "some_fixed", "return number + 1 + 0 // (number not in (7, 8, 9))")
    await failed(engine, "some_fixed", 7, 8, 9)
    again = await create(engine, "some_fixed", "return number + 1 + (int('x') if number == 9 else 0)")
    note = "Of 3 calls on which version 1 failed in use, 2 no longer fail, 1 still fails with ValueError."
    assert note in again.text
    shown = await engine.call("manage_skills", {"action": "show", "name": "some_fixed"})
    assert note in shown.output["admission"]["notes"]
    assert shown.output["failed_inputs"] == [{"number": 9}]  # of version 2, which has not been called
    assert "ValueError: invalid literal" in shown.text


async def test_inputs_whose_failure_cannot_be_compared_are_counted(engine: Engine) -> None:
    """A result that was reported as wrong is not a failure of the code."""
    await create(engine, "reported", "return number + 1 + 0 // (number != 7)")
    await failed(engine, "reported", 7)
    case = {"arguments": {"number": 3}}
    assert (await engine.call("manage_skills", {"action": "correct", "name": "reported", "case": case})).success
    again = await create(engine, "reported", "return 1 + number")
    assert "Of 1 call on which version 1 failed in use, 1 no longer fails. 1 more could not be compared." in again.text


async def test_the_note_does_not_contain_inputs_that_code_puts_into_the_name_of_an_exception(engine: Engine) -> None:
    await create(engine, "telling", "return number + 1 + 0 // (number != 4711)")
    await failed(engine, "telling", 4711)
    telling = "if number == 4711: raise type(f'Is{number}', (Exception,), {})\n    return number + 1"
    again = await create(engine, "telling", telling)
    assert "1 still fails with another exception." in again.text
    assert "4711" not in again.text


async def test_a_version_whose_predecessor_never_failed_has_no_such_note(engine: Engine) -> None:
    await create(engine, "never_failed", "return number + 1")
    assert "failed in use" not in (await create(engine, "never_failed", "return 1 + number")).text


async def test_a_breaking_version_is_tried_too_unless_its_parameters_do_not_fit(engine: Engine) -> None:
    await create(engine, "broken", "return number + 1 + 0 // (number != 7)")
    await failed(engine, "broken", 7)
    again = await create(engine, "broken", "return number + 1 + 0 // (number != 7)  # still", breaking=True)
    assert "1 still fails with ZeroDivisionError" in again.text
    offered = proposal(
        "broken",
        "return len(number) + 1",
        tests="from broken import broken\n\n\ndef test_it():\n    assert broken('a') == 2\n",
    )
    code = offered.code.replace("number: int", "number: str")
    third = await create(engine, "broken", "", code=code, tests=offered.tests, breaking=True)
    assert "failed in use" not in third.text
