"""Builds the `Skill` of an admitted proposal."""

import hashlib

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillKind, SkillState
from acquired_skills.proof.admission import Admission


def build_skill(parsed: ParsedProposal, admission: Admission, created: str) -> Skill:
    """Return the skill, with the state PROBATION. Its version is set when it is published.

    Args:
        created: The time in UTC, ISO 8601.
    """
    proposal = parsed.proposal
    return Skill(
        name=proposal.name,
        version=0,
        state=SkillState.PROBATION,
        description=proposal.description,
        parameters=admission.parameters,
        plain=admission.plain,
        imports=tuple(sorted(parsed.imports)),
        created=created,
        code_sha256=sha256(proposal.code),
        tests_sha256=sha256(proposal.tests),
        tests=admission.tests,
        examples=proposal.examples,
        dependencies=admission.declared.dependencies,
        destinations=tuple(map(str, admission.declared.destinations)),
        calls=tuple(sorted(admission.declared.tools)),
        environment=admission.environment,
        timeout_s=proposal.timeout_s,
        admission=admission.report,
        provenance=proposal.provenance,
        returns=admission.returns,
        inferred=admission.inferred,
        extra=hashes(proposal),
        kind=SkillKind.of(proposal.language),
    )


def is_unchanged(skill: Skill, proposal: Proposal) -> bool:
    """Return whether the proposal would change nothing. A repeated request then creates no new version."""
    current = (skill.description, skill.examples, skill.timeout_s)
    if current != (proposal.description, proposal.examples, proposal.timeout_s) or not skill.state.listed:
        return False
    return has_same_files(skill, proposal)


def has_same_files(skill: Skill, proposal: Proposal) -> bool:
    """Return whether a skill and a proposal have the same code, tests and extra files."""
    own = (skill.code_sha256, skill.tests_sha256, skill.extra)
    return (sha256(proposal.code), sha256(proposal.tests), hashes(proposal)) == own


def hashes(proposal: Proposal) -> dict[str, str]:
    """Return the SHA-256 of each extra file, by path."""
    return {path: sha256(text) for path, text in proposal.files.items()}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
