"""Every job of a call is queued for the agent that made the call."""

from pathlib import Path

import pytest

from engine import Engine
from engine.contract.turn import Turn
from sandbox.contract import Job, OnOutput, Outcome
from sandbox.namespace.backend import NamespaceSandbox
from tests.builtin_tools.vowels import CODE, TESTS


class Recording(NamespaceSandbox):
    def __init__(self) -> None:
        super().__init__()
        self.agents = list[str]()

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        self.agents.append(job.agent)
        return await super().run(job, on_output=on_output)


@pytest.mark.spec("BOX-7")
async def test_code_skills_and_admissions_are_queued_for_the_calling_agent(tmp_path: Path) -> None:
    turn = Turn(user="ann", agent="planner")
    proposal = {"name": "vowels", "description": "Counts the vowels of a text.", "code": CODE, "tests": TESTS}
    composed = {
        "name": "vowels_of_name",
        "description": "Counts the vowels of a name.",
        "pipeline": {
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            "steps": [{"name": "count", "call": "vowels", "inputs": {"text": {"from": "/arguments/name"}}}],
            "output": {"count": {"from": "/count"}},
        },
        "cases": [
            {"arguments": {"name": "banana"}, "expect": {"count": 3}},
            {"arguments": {"name": "rhythm"}, "expect": {"count": 0}},
        ],
    }
    async with Recording() as box, Engine.open(tmp_path, sandbox=box) as engine:
        for name, arguments in (
            ("execute", {"language": "bash", "code": "true"}),
            ("system_utility", {"action": "health"}),
            ("create_skill", proposal),
            ("vowels", {"text": "banana"}),
            ("compose_skill", composed),
            ("vowels_of_name", {"name": "banana"}),
        ):
            before = len(box.agents)
            result = await engine.call(name, arguments, turn)
            assert result.success, result.error
            assert len(box.agents) > before, f"{name} ran nothing"
    assert set(box.agents) == {turn.agent_key}


def test_agents_of_different_users_have_different_keys() -> None:
    turns = [Turn(user=user, agent=agent) for user, agent in (("a", "b"), ("a:b", ""), ("", "a:b"), ("1:a", "b"))]
    assert len({turn.agent_key for turn in turns}) == len(turns)
