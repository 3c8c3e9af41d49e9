"""`compose_skill`: teach the engine a pipeline of calls as one tool. Only what its cases prove is kept."""

import json
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.composed.admission import DEFAULT_TIMEOUT_S, Composer
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.provenance import of_call
from acquired_skills.model.skill import SkillError
from acquired_skills.tools.describe import signature
from builtin_tools.create_skill import LISTED_AT_ONCE, LISTED_BY_QUERY
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.inner_calls import InnerCalls
from engine.registry.decorate import tool


class Composed(TypedDict):
    """The new version. parameters: JSON Schema. calls: the tools it calls."""

    name: str
    version: int
    state: str
    tests: int
    parameters: dict[str, Any]
    calls: list[str]


@tool(
    required_permission="user",
    category="skills",
    requires=("sandbox",),
    side_effects=("skill_write",),
    timeout_s=120,
    short_description="Teach a pipeline of tool calls as one tool, kept only if its cases prove it.",
)
async def compose_skill(
    ctx: CallContext,
    *,
    name: str,
    description: str,
    pipeline: dict[str, Any],
    cases: list[dict[str, Any]],
    examples: list[str] | None = None,
    breaking: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Produced[Composed]:
    """Teach one new tool made of calls of tools and skills that there are, in a fixed order.

    Steps run one after the other, each as an ordinary call: permissions, approvals and limits hold for it. If one
    fails, the answer says how to go on from there. A refusal lists everything to change. An existing composed skill's
    name makes a new version of it.

    Args:
        name: of the skill, in snake_case.
        description: what it does and when to use it, in one to three sentences; it is found by this.
        pipeline: `{"steps": [...], "output": VALUE}`, and `parameters` (JSON Schema) unless they follow from the steps.
            A step is a call `{"name": "page", "call": "tool_name", "inputs": {"url": VALUE}}`, or a map `{"name",
            "map": VALUE, "as": "item", "each": {"steps", "output"}, "most_items": 20, "at_once": 1}`, or a branch
            `{"name", "if": CONDITION, "then": {"steps", "output"}, "else": {"steps", "output"}}`. A VALUE is plain
            JSON with `{"from": "/page/items/0"}` (a JSON Pointer below `arguments`, an earlier step of this or an
            outer block, or the item; `default` beside it where it may be absent) or `{"text": ["a ", VALUE]}` in it. A
            CONDITION is `{"equals": [a, b]}`, `less`, `in`, `{"exists": "/page/title"}`, `not`, `all` or `any`.
        cases: tests, each `{"arguments": {}, "steps": {"page": OUTPUT}, "asked": {"page": {"url": "..."}}, "expect":
            OUTPUT}`. `steps` gives the output of calls, which are not made; only skills without a network run for real
            when they are left out. `asked` says what a step must be called with. Every step and every branch must
            matter to a case.
        examples: requests in a user's words that this skill should answer.
        breaking: for a new version whose earlier cases need not pass.
        timeout_s: seconds one call of the skill may take, waiting for approvals included.
    """
    library = ctx.need(SkillLibrary)
    told = of_call(ctx, "compose_skill")
    program, proof = (json.dumps(each, ensure_ascii=False) for each in (pipeline, cases))
    proposal = Proposal(name, description, program, proof, tuple(examples or ()), breaking, timeout_s, told)
    try:
        skill = await Composer(library, ctx.need(InnerCalls), ctx.sandbox, ctx.turn).compose(proposal)
    except SkillRefused as refused:
        raise ToolFailure(str(refused), reason="proposal_refused", may_have_started=False) from refused
    except SkillError as error:
        raise ToolFailure(str(error), reason="skill_not_changed", may_have_started=False) from error
    passed = f"{skill.tests} case{'s' if skill.tests != 1 else ''} passed"
    return Produced(
        value={
            "name": skill.name,
            "version": skill.version,
            "state": skill.state.value,
            "tests": skill.tests,
            "parameters": dict(skill.parameters),
            "calls": list(skill.calls),
        },
        message=(
            f"`{skill.name}` version {skill.version} is admitted ({passed}). Call it as "
            f"{signature(skill)}; {LISTED_BY_QUERY if ctx.turn.query is not None else LISTED_AT_ONCE}"
        ),
        side_effects=(f"created:skill:{skill.name}:{skill.version}",),
    )
