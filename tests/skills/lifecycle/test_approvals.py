"""A person must approve the declarations of a new skill, unless the configuration allows them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from acquired_skills.lifecycle.approvals import ANY, ApprovalPolicy
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.provenance import in_one_line
from acquired_skills.model.script_block import ScriptBlock, read_script_block
from engine import Engine
from engine.app.people import People
from engine.app.settings import Settings, SkillSettings
from engine.contract.failure import FailureClass
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import ADD_ONE_TESTS, proposal

pytestmark = [pytest.mark.spec("SKILL-17", "ACCESS-8"), pytest.mark.asyncio(loop_scope="module")]


def declaring(block: str) -> Proposal:
    offered = proposal(tests=ADD_ONE_TESTS)
    return Proposal(offered.name, offered.description, f"# /// script\n{block}\n# ///\n{offered.code}", offered.tests)


SIX = declaring('# dependencies = ["Six>=1.16"]')


class Person:
    def __init__(self, answers: Callable[[ApprovalRequest], ApprovalAnswer]) -> None:
        self.answers = answers
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return self.answers(request)


async def create(home: Path, box: NamespaceSandbox, person: Person | None, **skills: object) -> tuple[ToolResult, str]:
    """Create a skill. Return the result, and the provenance of the skill if it was created."""
    settings = Settings(skills=SkillSettings.model_validate(skills))
    async with Engine.open(home, settings=settings, sandbox=box, people=People(approver=person)) as engine:
        arguments = {"name": SIX.name, "description": SIX.description, "code": SIX.code, "tests": SIX.tests}
        result = await engine.call("create_skill", arguments, turn=Turn(user="ada", agent="bot"))
        shown = await engine.call("manage_skills", {"action": "show", "name": SIX.name})
        return result, in_one_line(shown.output["provenance"]) if shown.success else ""


def yes(request: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer(True, request.digest, by="grace")


async def test_a_person_sees_the_declarations_and_is_recorded_as_the_approver(
    tmp_path: Path, box: NamespaceSandbox
) -> None:
    person = Person(yes)
    result, origin = await create(tmp_path, box, person)
    (asked,) = person.asked
    assert asked.arguments["packages"] == ["Six>=1.16"]
    assert '"packages": [\n    "Six>=1.16"' in asked.shown(200)  # above the code, so that long code cannot hide it
    assert (asked.user, asked.arguments["code"]) == ("ada", SIX.code)
    if result.success:  # on a machine where packages can be installed
        assert "approved packages: Six>=1.16, approved by grace" in origin
        assert f"user ada, agent bot, call {asked.call_id}" in origin
    else:
        assert "[dependencies]" in result.error
        assert "approval" not in result.error


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda request: ApprovalAnswer(False, request.digest, "not today"), "the user said no: not today"),
        (lambda _: ApprovalAnswer(True, "of something else"), "the approval is for other arguments or another version"),
    ],
)
async def test_without_approval_of_exactly_these_declarations_nothing_is_stored(
    tmp_path: Path, box: NamespaceSandbox, answer: Callable[[ApprovalRequest], ApprovalAnswer], says: str
) -> None:
    result, origin = await create(tmp_path, box, Person(answer))
    assert result.failure is not None
    assert (result.failure.failure_class, result.failure.reason) == (FailureClass.FATAL, "not_approved")
    assert says in result.error
    assert origin == ""
    assert list((tmp_path / "acquired_skills").glob("[a-z]*")) == []
    assert not (tmp_path / "cache" / "environments").exists()


async def test_if_nobody_can_be_asked_the_refusal_names_the_setting(tmp_path: Path, box: NamespaceSandbox) -> None:
    result, _ = await create(tmp_path, box, None)
    assert result.failure is not None
    assert result.failure.reason == "proposal_refused"
    assert "[dependencies] The code needs a person's approval (packages: Six>=1.16)" in result.error
    assert 'set `packages = ["Six"]` under `[skills]` in config.toml' in result.error


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [
        (ApprovalPolicy(frozenset()), (["Six>=1.16"], [])),
        (ApprovalPolicy(frozenset({"six"})), ([], [])),
        (ApprovalPolicy(frozenset({"SIX"})), ([], [])),
        (ApprovalPolicy(frozenset({"sixx"})), (["Six>=1.16"], [])),
        (ApprovalPolicy(frozenset({ANY})), ([], [])),
        (ApprovalPolicy(frozenset({ANY}), always=True), (["Six>=1.16"], ["a.example:443"])),
    ],
)
async def test_declarations_that_the_configuration_allows_need_no_approval(
    allowed: ApprovalPolicy, asked: tuple[list[str], list[str]]
) -> None:
    block = '# dependencies = ["Six>=1.16"]\n# [tool.knackbox]\n# destinations = ["a.example:443"]'
    assert allowed.needing_approval(read_script_block(declaring(block).code)) == asked
    assert allowed.needing_approval(ScriptBlock()) == ([], [])


async def test_declarations_too_long_to_be_shown_are_refused(tmp_path: Path, box: NamespaceSandbox) -> None:
    padded = "Six" + " " * 3_000 + ">=1.16"
    code = declaring(f'# dependencies = ["{padded}", "other>=1"]').code
    person = Person(yes)
    settings = Settings(skills=SkillSettings(packages=[]))
    async with Engine.open(tmp_path, settings=settings, sandbox=box, people=People(approver=person)) as engine:
        arguments = {"name": SIX.name, "description": SIX.description, "code": code, "tests": SIX.tests}
        result = await engine.call("create_skill", arguments)
    assert person.asked == []
    assert "use at most 1,500, so that the person who is asked for approval can read them" in result.error
