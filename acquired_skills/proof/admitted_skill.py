"""What becomes of a proposal that was admitted: the `Skill` that is kept of it."""

import hashlib

from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.proof.admission import Admission
from acquired_skills.proof.static_checks import imported_modules


def skill_of(proposal: Proposal, admission: Admission, created: str) -> Skill:
    """In probation, and without a version, which it gets when it is published. created: UTC, ISO 8601."""
    return Skill(
        name=proposal.name,
        version=0,
        state=SkillState.PROBATION,
        description=proposal.description,
        parameters=admission.parameters,
        plain=admission.plain,
        imports=tuple(sorted(imported_modules(proposal.code))),
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


def is_same(skill: Skill, proposal: Proposal) -> bool:
    """Whether nothing would change, so that a repeated request does not pile up versions."""
    told = (skill.description, skill.examples, skill.timeout_s)
    if told != (proposal.description, proposal.examples, proposal.timeout_s) or not skill.state.listed:
        return False
    return (sha256(proposal.code), sha256(proposal.tests)) == (skill.code_sha256, skill.tests_sha256)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
