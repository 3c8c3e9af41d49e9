"""Finds the existing skills that a proposal may duplicate."""

import contextlib

from acquired_skills.lifecycle.stored_skills import StoredSkills
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillDamaged, SkillKind
from acquired_skills.proof.duplicates import Neighbour


async def nearest_neighbours(
    skills: StoredSkills, proposal: Proposal, most: int, older_than: Skill | None = None
) -> list[Neighbour]:
    """Return the listed skills that are most similar to a proposal and can be compared with it, most similar first.

    Skills can be compared if they are in the proposal's language and have neither an environment nor network
    destinations, and call no tools.

    Args:
        most: The maximum number of skills that the search returns.
        older_than: Return only skills that are older than this skill; None to return skills of any age.
    """
    found: list[Neighbour] = []
    if not most:
        return found
    for near in await skills.search(f"{proposal.name} {proposal.description}", most, 0.0):
        skill = near.skill
        if (
            skill.kind is SkillKind.of(proposal.language)
            and skill.name != proposal.name
            and not (skill.environment or skill.destinations or skill.calls)
            and (older_than is None or (skill.created, skill.name) < (older_than.created, older_than.name))
        ):
            with contextlib.suppress(SkillDamaged):
                program = await skills.program(skill)
                found.append(Neighbour(skill.name, program, skill.imports, skill.plain, skill.inferred))
    return found
