"""Runs the admission of stored skills again, to find those that would not be admitted today (SKILL-13).

The rules of admission become stricter from release to release, and the configuration changes. Skills that were admitted
earlier stay as they are until somebody checks them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from acquired_skills.model.proposal import ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill, SkillDamaged, SkillKind
from engine.contract.failure import ToolFailure
from sandbox.contract import UnresolvedRequirements

Readmit = Callable[[Skill], Awaitable[None]]  # raises what `SkillLibrary.readmit` raises


class ReadmissionVerdict(StrEnum):
    """The verdict on a stored skill under today's rules. UNKNOWN: the skill's admission cannot be run here."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Readmission:
    """The result of the re-admission of one skill.

    Attributes:
        problems: The reasons why the skill was refused, or why its admission could not be run.
    """

    skill: Skill
    verdict: ReadmissionVerdict
    problems: tuple[ProposalProblem, ...] = ()

    def value(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "name": self.skill.name,
            "version": self.skill.version,
            "state": self.skill.state.value,
            "verdict": self.verdict.value,
            "problems": [{"part": each.part, "text": each.text} for each in self.problems],
        }


async def readmit_all(
    skills: Sequence[Skill],
    by_kind: Mapping[SkillKind, Readmit],
    progress: Callable[[int, int], None],
) -> list[Readmission]:
    """Run the admission of each skill again, one after another.

    Args:
        by_kind: For each kind of skill, a function that runs its admission.
        progress: Called with the number of finished skills and the total.

    Raises:
        SandboxError: No box can run on this machine.
    """
    found: list[Readmission] = []
    for done, skill in enumerate(skills):
        progress(done, len(skills))
        found.append(await _readmitted(skill, by_kind[skill.kind]))
    progress(len(skills), len(skills))
    return found


async def _readmitted(skill: Skill, readmit: Readmit) -> Readmission:
    try:
        await readmit(skill)
    except SkillRefused as refused:
        # If packages cannot be installed now, the package index may be unavailable. That is not the skill's fault.
        unresolved = isinstance(refused.__cause__, UnresolvedRequirements)
        return Readmission(
            skill, ReadmissionVerdict.UNKNOWN if unresolved else ReadmissionVerdict.REFUSED, refused.problems
        )
    except (SkillDamaged, ToolFailure) as error:
        return Readmission(skill, ReadmissionVerdict.UNKNOWN, (ProposalProblem("version", str(error)),))
    return Readmission(skill, ReadmissionVerdict.ADMITTED)
