"""Compares the results of a skill with the corrections that were recorded for it (SKILL-13)."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from acquired_skills.jobs.skill_job import job_of
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.model.skill import Skill, SkillError, SkillKind
from acquired_skills.model.skill_schemas import why_misfit
from acquired_skills.store.corrected_calls import CorrectedCall
from sandbox.contract import Outcome, Sandbox

_MOST_SHOWN = 300
_NEAR = 1e-9  # relative tolerance for floats, as in `math.isclose`


def refuse_uncorrectable(skill: Skill, call: CorrectedCall) -> None:
    """Check that later versions of a skill can be tested with this call. This blocks.

    Raises:
        SkillError: Later versions cannot be tested with this call.
    """
    if skill.kind is SkillKind.COMPOSED:
        raise SkillError(
            f"`{skill.name}` is a pipeline, which has no corrections. Add the correct result as a case with "
            "compose_skill."
        )
    if skill.calls:
        raise SkillError(
            f"`{skill.name}` calls {', '.join(skill.calls)}, so its results may change and cannot be corrected. Write "
            "a test that states what these tools answer."
        )
    if skill.destinations:
        raise SkillError(
            f"`{skill.name}` connects to {', '.join(skill.destinations)}, so its results may change and cannot be "
            "corrected. Write a test that does not depend on them."
        )
    if call.raises and not all(part.isidentifier() for part in call.raises.split(".")):
        raise SkillError(f"{call.raises[:80]!r} is not the type of an exception: use a name such as ValueError.")
    if wrong := why_misfit(dict(call.arguments), skill.parameters):
        raise SkillError(f"The arguments do not fit the parameters of `{skill.name}`:\n{wrong}\nCorrect them.")


async def wrong_result(skill: Skill, program: SkillProgram, call: CorrectedCall, sandbox: Sandbox) -> str:
    """Make the call in a box without a workspace. Return its result if it is wrong, or "" if it is correct.

    Raises:
        SandboxError: No box can run.
    """
    outcome = await sandbox.run(job_of(skill, program, call.arguments))
    return "" if is_right(outcome, call) else shown_result(outcome)


async def correction_problems(
    skill: Skill, program: SkillProgram, calls: Sequence[CorrectedCall], sandbox: Sandbox
) -> list[ProposalProblem]:
    """Return a problem for each correction that a new version does not satisfy.

    Raises:
        SandboxError: No box can run.
    """
    return [
        ProposalProblem(
            "cases",
            f"{wrong} Correct the code, or send `breaking=true` to withdraw all corrections of earlier versions.",
        )
        for wrong in await corrected_results(skill, program, calls, sandbox)
    ]


async def corrected_results(
    skill: Skill, program: SkillProgram, calls: Sequence[CorrectedCall], sandbox: Sandbox
) -> list[str]:
    """Return a sentence about each corrected call for which the program gives a wrong result.

    Raises:
        SandboxError: No box can run.
    """
    wrong = await asyncio.gather(*(wrong_result(skill, program, call, sandbox) for call in calls))
    return [
        f"`{shown_call(skill.name, call.arguments)}` {given}, but the correct result is {_short(call.right)}, as "
        f"{call.user or 'a user'} reported."
        for call, given in zip(calls, wrong, strict=True)
        if given
    ]


def is_right(outcome: Outcome, call: CorrectedCall) -> bool:
    """Return whether the outcome of a call is the correct result."""
    if call.raises:
        return outcome.error is not None and outcome.error.type.rpartition(".")[2] == call.raises.rpartition(".")[2]
    return outcome.ok and same_value(outcome.value, call.expect)


def shown_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Format a call in one line."""
    return _short(f"{name}({', '.join(f'{key}={value!a}' for key, value in arguments.items())})")


def shown_result(outcome: Outcome) -> str:
    """Format the result of a call in one line: ``returns 3``."""
    if outcome.ok:
        return f"returns {_short(ascii(outcome.value))}"
    if outcome.error is not None:
        return f"raises {_short(ascii(f'{outcome.error.type}: {outcome.error.message}')[1:-1])}"
    return f"ends with {outcome.end}"


def same_value(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same. 1 equals 1.0 but not true, and floats may differ slightly."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_NEAR)
    if isinstance(other, float) and isinstance(one, int):
        return math.isclose(one, other, rel_tol=_NEAR)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(each, other[key]) for key, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
