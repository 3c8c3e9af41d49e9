"""`compose_skill`: creates a tool from a pipeline of calls, and keeps it only if all its cases pass."""

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


class ComposeOutput(TypedDict):
    """The version of the skill that was created.

    Attributes:
        parameters: JSON Schema of the skill's arguments.
        calls: Names of the tools that the skill calls.
    """

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
    short_description="Create one tool from a pipeline of tool calls, kept only if all its cases pass.",
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
) -> Produced[ComposeOutput]:
    """Create a new tool (a composed skill) that makes a fixed sequence of calls to existing tools and skills.

    Use it for a sequence of calls that will be needed again. If new code is needed, use `create_skill` instead.

    The steps run one after the other, each as an ordinary call: permissions, approvals and limits apply. If a step
    fails, the error says how to continue from there. A refusal lists everything to change: change it and call again.
    The name of an existing composed skill creates a new version of it.

    Args:
        name: Name of the skill, in snake_case.
        description: What the skill does and when to use it, in one to three sentences. Searches find it by this text.
        pipeline: `{"steps": [...], "output": VALUE}`, with `parameters` (JSON Schema) unless the steps determine them.
            A step is a call `{"name": "page", "call": "tool_name", "inputs": {"url": VALUE}}`, a map `{"name", "map":
            VALUE, "as": "item", "each": {"steps", "output"}, "most_items": 20, "at_once": 1}`, or a branch `{"name",
            "if": CONDITION, "then": {"steps", "output"}, "else": {"steps", "output"}}`. A VALUE is JSON that may
            contain `{"from": "/page/items/0"}` and `{"text": ["a ", VALUE]}`. `from` is a JSON Pointer that starts at
            `arguments`, at an earlier step of this or an enclosing block, or at the item of a map; add `default` if
            the value may be absent. A CONDITION is `{"equals": [a, b]}`, `less`, `in`, `{"exists": "/page/title"}`,
            `not`, `all` or `any`.
        cases: Tests, each `{"arguments": {}, "steps": {"page": OUTPUT}, "asked": {"page": {"url": "..."}}, "expect":
            OUTPUT}`. `steps` contains outputs of calls; these calls are not made. Only calls of skills without network
            access may be omitted, and are then really made. `asked` contains the inputs with which a step must be
            called. Every step and every branch must affect the result of at least one case.
        examples: Requests, in a user's words, that this skill should answer.
        breaking: True if a new version need not pass the cases of the previous version.
        timeout_s: Seconds that one call of the skill may take, including the wait for approvals.
    """
    library = ctx.need(SkillLibrary)
    provenance = of_call(ctx, "compose_skill")
    program, proof = (json.dumps(each, ensure_ascii=False) for each in (pipeline, cases))
    proposal = Proposal(name, description, program, proof, tuple(examples or ()), breaking, timeout_s, provenance)
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
