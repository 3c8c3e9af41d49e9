"""Detects duplicate skills (SKILL-8).

The calls that the new skill's tests make were recorded in a box. Each neighbour, a similar skill, gets the arguments of
these calls in its own fresh box. It never sees the expected answers, which are compared here. So a neighbour can block
the new skill only with the same answers, and then the new skill is indeed a duplicate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.jobs.box_files import NEIGHBOUR, PYDANTIC, PYTEST, entry_file, in_box_modules
from acquired_skills.jobs.environment import preload_for
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import ProposalProblem
from sandbox.contract import Call, Job, Limits, Sandbox

LEAST_CALLS = 3  # recorded calls needed for a comparison; fewer are enough if they are all calls of the tests


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A skill similar to a new one.

    Attributes:
        imports: Top-level modules that the skill imports.
        plain: Whether the skill takes and returns plain JSON.
        inferred: The inferred type hints of the skill's parameters.
    """

    name: str
    program: SkillProgram
    imports: tuple[str, ...] = ()
    plain: bool = True
    inferred: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DuplicateCheck:
    """The result of a check for duplicates.

    Attributes:
        duplicate: The name of the first neighbour that gave the same answers; "" if there is none.
        neighbours: How many neighbours were called.
        calls: How many calls were made to each neighbour.
    """

    duplicate: str = ""
    neighbours: int = 0
    calls: int = 0

    def problem(self) -> ProposalProblem:
        """Return the problem to report when there is a duplicate."""
        return ProposalProblem(
            "duplicate",
            f"The skill `{self.duplicate}` already returns the same results for all calls of these tests ({self.calls} "
            "different calls). Call that skill. If yours does something else, add a test that shows the difference.",
        )


async def find_duplicate(
    calls: Sequence[Mapping[str, Any]],
    unrecorded: int,
    neighbours: Sequence[Neighbour],
    sandbox: Sandbox,
    seconds: float,
) -> DuplicateCheck:
    """Make the calls to the neighbours, nearest first, until one answers every call as the new skill did.

    Args:
        calls: Recorded calls (`acquired_skills.proof.facts.RecordedCall`).
        unrecorded: How many further calls the tests made that were not recorded.
        seconds: The time limit for all neighbours, which is divided equally among them.

    Raises:
        SandboxError: No box can run.
    """
    if not calls or (unrecorded and (len(calls) < LEAST_CALLS or unrecorded >= len(calls))):
        return DuplicateCheck()
    for number, neighbour in enumerate(neighbours, 1):
        if await _answers_alike(neighbour, calls, sandbox, seconds / len(neighbours)):
            return DuplicateCheck(neighbour.name, number, len(calls))
    return DuplicateCheck("", len(neighbours), len(calls))


async def _answers_alike(
    neighbour: Neighbour, calls: Sequence[Mapping[str, Any]], sandbox: Sandbox, seconds: float
) -> bool:
    """Return whether a neighbour gives the same answers; False if its box fails or its output is malformed."""
    arguments = [{"positional": each["positional"], "named": each["named"]} for each in calls]
    given = {
        "name": neighbour.name,
        "plain": neighbour.plain,
        "inferred": dict(neighbour.inferred),
        "calls": arguments,
    }
    job = Job(
        call=Call(NEIGHBOUR, "answers", given),
        files={**entry_file(NEIGHBOUR), **neighbour.program.extra, f"{neighbour.name}.py": neighbour.program.code},
        preload=preload_for(neighbour.imports, (), (*PYDANTIC, *PYTEST)),  # to use the rehearsal's template
        in_box=in_box_modules(NEIGHBOUR),
        limits=Limits(wall_s=seconds, cpu_s=seconds),
    )
    outcome = await sandbox.run(job)
    expected = [{how: each[how] for how in ("value", "raised") if how in each} for each in calls]
    try:
        return outcome.ok and bool(outcome.value == expected)
    except RecursionError:  # nested too deeply to be compared
        return False
