"""If the result of a skill makes a later step fail, the input of the skill becomes a test case (SKILL-13)."""

from pathlib import Path

import pytest

from tests.skills.composed.parts import compose, opened
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

pytestmark = [pytest.mark.asyncio, pytest.mark.spec("SKILL-13")]

CODE = """from typing import Any


def pick_name(number: int) -> Any:
    \"\"\"Pick a name by its number.

    Args:
        number: which one.
    \"\"\"
    return "ann" if number == 1 else number
"""
TESTS = "from pick_name import pick_name\n\n\ndef test_ann():\n    assert pick_name(1) == 'ann'\n"
PICK = {"name": "pick", "call": "pick_name", "inputs": {"number": {"from": "/arguments/number"}}}
SEND = {"name": "send", "call": "send_note", "inputs": {"to": {"from": "/pick"}, "text": {"text": ["Hello"]}}}
PIPELINE = {"steps": [PICK, SEND], "output": {"from": "/send/sent"}}
CASE = {
    "arguments": {"number": 1},
    "steps": {"send": {"sent": "ann"}},
    "asked": {"send": {"to": "ann", "text": "Hello"}},
    "expect": "ann",
}


async def test_the_input_of_the_skill_is_stored_as_a_case_and_does_not_count_as_its_failure(tmp_path: Path) -> None:
    async with opened(tmp_path, **ENVIRON_WITHOUT_MUTANTS) as engine:
        given = {"name": "pick_name", "description": "Pick a name by its number.", "code": CODE, "tests": TESTS}
        made = await engine.call("create_skill", given)
        assert made.success, made.error
        composed = await compose(engine, PIPELINE, [CASE])
        assert composed.success, composed.error
        assert (await engine.call("tell_about", {"number": 1})).output == "ann"
        failed = await engine.call("tell_about", {"number": 2})
        assert "stopped at step `send`" in failed.error
        shown = (await engine.call("manage_skills", {"action": "show", "name": "pick_name"})).text
        assert "# the result made a later step fail" in shown
        assert "assert pick_name(number=2) == ..." in shown
        assert "number=1" not in shown
        stats = (await engine.call("manage_skills", {"action": "stats", "name": "pick_name"})).output
        assert (stats[0]["successes"], stats[0]["failures"]) == (2, 0)
