"""Which skill that there is does already what a new one does (SKILL-8).

The tests of the new one made calls, which its box recorded. Each neighbour gets what went in, in a fresh box of its
own, and never sees what should come out; the answers are compared here. So a neighbour that lies can only lie about
itself: to keep others away it would have to know the right answers, which is to be a double.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.jobs.box_files import NEIGHBOUR, PYDANTIC, PYTEST, box_files
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.proposal import Problem
from sandbox.contract import Call, Job, Limits, Sandbox

ENOUGH = 3  # recorded calls to judge by; with fewer, there must have been no others


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A skill near a new one. imports: top-level modules of its code. plain: it takes and gives JSON as it is."""

    name: str
    code: bytes
    imports: tuple[str, ...] = ()
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """double: the name of the first neighbour that answers alike, "" for none. asked: how many were. calls: of each."""

    double: str = ""
    asked: int = 0
    calls: int = 0

    def problem(self) -> Problem:
        """What speaks against the new skill, when there is a double."""
        return Problem(
            "duplicate",
            f"The skill `{self.double}` answers already as this one does, whatever these tests ask ({self.calls} "
            "different calls): call that one. If yours does something else, add a test that shows it.",
        )


async def compare(
    calls: Sequence[Mapping[str, Any]], missed: int, neighbours: Sequence[Neighbour], sandbox: Sandbox, seconds: float
) -> Compared:
    """Ask the neighbours, the nearest first, until one answers every call as the new skill did.

    calls: recorded (`acquired_skills.proof.facts.Recorded`). missed: how many more the tests made. seconds: for
    all of them, shared evenly. Raises SandboxError when no box can run.
    """
    if not calls or (len(calls) < ENOUGH and missed):
        return Compared()
    for number, neighbour in enumerate(neighbours, 1):
        if await _answers_alike(neighbour, calls, sandbox, seconds / len(neighbours)):
            return Compared(neighbour.name, number, len(calls))
    return Compared("", len(neighbours), len(calls))


async def _answers_alike(
    neighbour: Neighbour, calls: Sequence[Mapping[str, Any]], sandbox: Sandbox, seconds: float
) -> bool:
    """Whatever goes wrong in its box, and whatever comes out that is no list of answers, is not alike."""
    asked = [{"positional": each["positional"], "named": each["named"]} for each in calls]
    job = Job(
        call=Call(NEIGHBOUR, "answers", {"name": neighbour.name, "plain": neighbour.plain, "calls": asked}),
        files={**box_files(NEIGHBOUR), f"{neighbour.name}.py": neighbour.code},
        preload=preload_for(neighbour.imports, (), (*PYDANTIC, *PYTEST)),  # the template of the gate itself
        limits=Limits(wall_s=seconds, cpu_s=seconds),
    )
    outcome = await sandbox.run(job)
    expected = [{how: each[how] for how in ("value", "raised") if how in each} for each in calls]
    try:
        return outcome.ok and bool(outcome.value == expected)
    except RecursionError:  # nested deeper than can be compared
        return False
