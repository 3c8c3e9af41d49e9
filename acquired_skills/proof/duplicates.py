"""Detects duplicate skills (SKILL-8).

A box recorded the calls that the new skill's tests made. Each neighbour gets their arguments, in a fresh box of its
own, and never sees the expected answers; these are compared here. So a neighbour's code can only misreport its own
answers, and to block another skill it would have to give the right answers, which makes it a duplicate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.jobs.box_files import NEIGHBOUR, PYDANTIC, PYTEST, box_files
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.proposal import ProposalProblem
from sandbox.contract import Call, Job, Limits, Sandbox

LEAST_CALLS = 3  # recorded calls to compare; fewer are enough only if no others were made


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A skill similar to a new one. imports: top-level modules of its code. plain: it takes and returns plain JSON."""

    name: str
    code: bytes
    imports: tuple[str, ...] = ()
    plain: bool = True


@dataclass(frozen=True, slots=True)
class DuplicateCheck:
    """The result of a check.

    Attributes:
        duplicate: name of the first neighbour with the same answers; "" for none.
        asked: how many neighbours were asked.
        calls: how many calls each was asked.
    """

    duplicate: str = ""
    asked: int = 0
    calls: int = 0

    def problem(self) -> ProposalProblem:
        """Return the problem to report when there is a duplicate."""
        return ProposalProblem(
            "duplicate",
            f"The skill `{self.duplicate}` already returns the same results for all calls of these tests ({self.calls} "
            "different calls): call that one. If yours does something else, add a test that shows the difference.",
        )


async def find_duplicate(
    calls: Sequence[Mapping[str, Any]], missed: int, neighbours: Sequence[Neighbour], sandbox: Sandbox, seconds: float
) -> DuplicateCheck:
    """Ask the neighbours, nearest first, until one answers every call as the new skill did.

    Args:
        calls: recorded calls (`acquired_skills.proof.facts.RecordedCall`).
        missed: how many more calls the tests made.
        seconds: for all neighbours, shared equally.

    Raises:
        SandboxError: no box can run.
    """
    if not calls or (len(calls) < LEAST_CALLS and missed):
        return DuplicateCheck()
    for number, neighbour in enumerate(neighbours, 1):
        if await _answers_alike(neighbour, calls, sandbox, seconds / len(neighbours)):
            return DuplicateCheck(neighbour.name, number, len(calls))
    return DuplicateCheck("", len(neighbours), len(calls))


async def _answers_alike(
    neighbour: Neighbour, calls: Sequence[Mapping[str, Any]], sandbox: Sandbox, seconds: float
) -> bool:
    """Return whether a neighbour gives the same answers. Any failure in its box, and any malformed output, counts as
    no.
    """
    asked = [{"positional": each["positional"], "named": each["named"]} for each in calls]
    job = Job(
        call=Call(NEIGHBOUR, "answers", {"name": neighbour.name, "plain": neighbour.plain, "calls": asked}),
        files={**box_files(NEIGHBOUR), f"{neighbour.name}.py": neighbour.code},
        preload=preload_for(neighbour.imports, (), (*PYDANTIC, *PYTEST)),  # the template of the admission itself
        limits=Limits(wall_s=seconds, cpu_s=seconds),
    )
    outcome = await sandbox.run(job)
    expected = [{how: each[how] for how in ("value", "raised") if how in each} for each in calls]
    try:
        return outcome.ok and bool(outcome.value == expected)
    except RecursionError:  # nested too deeply to be compared
        return False
