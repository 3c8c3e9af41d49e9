"""`create_skill`: teach the engine a new tool. Only what proves itself in the box is kept."""

from typing import Any

from typing_extensions import TypedDict

from acquired_skills.lifecycle.approvals import approver
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.model.provenance import of_call
from acquired_skills.model.skill import SkillError
from acquired_skills.tools.describe import signature
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.policy.approval import EXPIRES_S, ApprovalGuard
from engine.registry.decorate import tool

LISTED_BY_QUERY = "it is listed from the next turn on whenever a request is near its description or names it."
LISTED_AT_ONCE = "it is on the list of tools now."  # who lists tools without a message, such as an MCP client


class Created(TypedDict):
    """The new version. parameters, returns: JSON Schemas; returns is null where the annotation says too little."""

    name: str
    version: int
    state: str
    tests: int
    parameters: dict[str, Any]
    returns: dict[str, Any] | None
    dependencies: list[str]
    destinations: list[str]


@tool(
    required_permission="user",
    category="skills",
    requires=("sandbox",),
    side_effects=("skill_write",),
    timeout_s=120 + EXPIRES_S,  # a person may be asked meanwhile
    short_description="Teach a new tool: code with tests, kept only if the tests prove it.",
)
async def create_skill(
    ctx: CallContext,
    *,
    name: str,
    description: str,
    code: str,
    tests: str,
    examples: list[str] | None = None,
    breaking: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Produced[Created]:
    """Teach a new reusable tool (a skill): Python code together with pytest tests that prove it.

    It is admitted only when every test fails on an empty stand-in, all tests pass, twice, on the code, and they notice
    most small changes of it, in a sandbox. Then it is a tool of its own, kept for good, and found again by meaning. A
    refusal lists everything to change; change it and call again. The name of an existing skill makes a new version of
    it.

    Args:
        name: of the skill and of its one public function, in snake_case, such as roman_numeral.
        description: what it does and when to use it, in one to three sentences; it is found by this.
        code: one Python file with a public function called like the skill, type hints on every parameter and on what it
            returns, which is checked at every call, and a docstring with an `Args:` section. It takes and returns plain
            JSON values; files of the workspace are read by relative paths. Helpers start with an underscore. Packages
            and network destinations are declared in a PEP 723 block at the top: `# /// script`, `# dependencies =
            ["requests>=2"]`, `# [tool.knackbox]`, `# destinations = ["api.example.com:443"]`, `# ///`. Nothing else can
            be connected to, and only what the operator allows.
        tests: a pytest module that starts with `from <name> import <name>` and asserts exact results, edge cases
            and errors included. A test that also passes on a function returning None is refused.
        examples: requests in a user's words that this skill should answer; three to ten make it much easier to find.
        breaking: for a new version that is meant to behave differently, so that the tests of the version before
            need not pass.
        timeout_s: seconds one call of the skill may take.
    """
    library = ctx.need(SkillLibrary)
    told = of_call(ctx, "create_skill")
    proposal = Proposal(name, description, code, tests, tuple(examples or ()), breaking, timeout_s, told)
    approval: ApprovalGuard | None = ctx.services.get(ApprovalGuard)
    ctx.progress("checking the proposal", 0.0)
    try:
        ask = approver(approval, ctx.call_id, ctx.turn.user)
        skill = await library.create(proposal, ctx.progress, ask, agent=ctx.turn.agent_key)
    except SkillRefused as refused:
        raise ToolFailure(str(refused), reason="proposal_refused", may_have_started=False) from refused
    except SkillError as error:
        raise ToolFailure(str(error), reason="skill_not_changed", may_have_started=False) from error
    tests_passed = f"{skill.tests} test{'s' if skill.tests != 1 else ''} passed"
    return Produced(
        value={
            "name": skill.name,
            "version": skill.version,
            "state": skill.state.value,
            "tests": skill.tests,
            "parameters": dict(skill.parameters),
            "returns": None if skill.returns is None else dict(skill.returns),
            "dependencies": list(skill.dependencies),
            "destinations": list(skill.destinations),
        },
        message=(
            f"`{skill.name}` version {skill.version} is admitted ({tests_passed}). Call it as {signature(skill)}; "
            f"{LISTED_BY_QUERY if ctx.turn.query is not None else LISTED_AT_ONCE}"
        ),
        side_effects=(f"created:skill:{skill.name}:{skill.version}",),
    )
