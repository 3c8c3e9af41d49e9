"""Builds the `Skill` of an admitted proposal."""

import hashlib

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.proof.admission import Admission


def build_skill(parsed: ParsedProposal, admission: Admission, created: str) -> Skill:
    """Return the skill, in probation. Its version is set when it is published. created: UTC, ISO 8601."""
    proposal = parsed.proposal
    return Skill(
        name=proposal.name,
        version=0,
        state=SkillState.PROBATION,
        description=proposal.description,
        parameters=admission.parameters,
        plain=admission.plain,
        imports=tuple(sorted(parsed.code.imports)),
        created=created,
        code_sha256=sha256(proposal.code),
        tests_sha256=sha256(proposal.tests),
        tests=admission.tests,
        examples=proposal.examples,
        dependencies=admission.declared.dependencies,
        destinations=tuple(map(str, admission.declared.destinations)),
        environment=admission.environment,
        timeout_s=proposal.timeout_s,
        admission=admission.report,
        provenance=proposal.provenance,
        returns=admission.returns,
    )


def is_unchanged(skill: Skill, proposal: Proposal) -> bool:
    """Return whether the proposal would change nothing, so that a repeated request does not create versions."""
    current = (skill.description, skill.examples, skill.timeout_s)
    if current != (proposal.description, proposal.examples, proposal.timeout_s) or not skill.state.listed:
        return False
    return (sha256(proposal.code), sha256(proposal.tests)) == (skill.code_sha256, skill.tests_sha256)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
