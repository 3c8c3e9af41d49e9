"""Imports Agent Skills. They are admitted like any proposal, and those without tests are stored as instructions."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from acquired_skills.composed.admission import Composer
from acquired_skills.lifecycle.approvals import Ask
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.names import skill_name
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.skill import Skill, SkillError, SkillKind
from acquired_skills.portable.reading import ImportCandidate, read_candidate
from acquired_skills.proof.admission_report import agreed_predictions, kept_reference, open_questions
from acquired_skills.proof.admitted_skill import has_same_files
from acquired_skills.store import skill_file
from acquired_skills.store.archive import SKILL_FILE, Unreadable, read_skills
from acquired_skills.store.trust import Trust
from engine.contract.failure import ToolFailure


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one skill.

    Attributes:
        version: The admitted version, or 0 if it was not admitted.
        text: A one-line summary for people.
    """

    name: str
    outcome: Literal["admitted", "already", "instructions", "refused"]
    version: int
    text: str


async def import_skills(
    path: Path,
    library: SkillLibrary,
    *,
    provenance: Mapping[str, str],
    composer: Composer | None = None,
    ask: Ask | None = None,
    as_text: bool = False,
    trust_predictions: bool = False,
) -> list[ImportResult]:
    """Import all skills of a folder or a zip file. If one fails, the others are still imported.

    Args:
        provenance: The origin to record for each skill (`acquired_skills.model.provenance`).
        composer: Admits pipelines, after the other skills from the same source. If it is None, pipelines are refused.
        ask: Asks a person to approve declarations; None if nobody can be asked.
        as_text: Whether to store all skills as instructions, even those that could be admitted.
        trust_predictions: Whether somebody here vouches for the predictions and references in the files. Otherwise only
            those in files with a trusted signature count as evidence.

    Raises:
        Unreadable: The source is unsafe to read. Nothing was imported.
    """
    found = await asyncio.to_thread(_read, path, dict(provenance))
    names = [one.front.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Unreadable(f"{path} has more than one skill called {', '.join(twice)}. Give each another name.")
    brought: list[ImportResult] = []
    for one in sorted(found, key=lambda one: one.kind is SkillKind.COMPOSED):
        try:
            vouched = trust_predictions or await asyncio.to_thread(_is_signed, one, library.store.trust)
            brought.append(await _bring(one, library, composer, ask, as_text=as_text, vouched=vouched))
        except (SkillRefused, SkillError, ToolFailure) as error:
            brought.append(ImportResult(one.front.name, "refused", 0, str(error)))
    return brought


def _read(path: Path, provenance: dict[str, str]) -> list[ImportCandidate]:
    whole = path.resolve()
    return [read_candidate(files, whole.name, provenance) for files in read_skills(whole)]


async def _bring(
    one: ImportCandidate,
    library: SkillLibrary,
    composer: Composer | None,
    ask: Ask | None,
    *,
    as_text: bool,
    vouched: bool,
) -> ImportResult:
    name, proposal = one.front.name, one.proposal
    if proposal is None or as_text:
        return await _keep_as_text(one, library)
    current = await library.find(proposal.name)
    if current is not None and has_same_files(current, proposal) and not (vouched and _answers(one, current)):
        message = f"{proposal.name} already exists with the same code and tests: version {current.version}"
        return ImportResult(name, "already", current.version, f"{message}, {current.state}.")
    if one.kind is not SkillKind.COMPOSED:
        if vouched:
            proposal = replace(proposal, expected=one.predictions, reference=one.reference)
        else:
            proposal = replace(proposal, claimed=one.predictions)
        skill = await library.create(proposal, ask=ask, author=False)
    elif composer is not None:
        skill = await composer.compose(proposal)
    else:
        raise SkillError(f"{name} is a pipeline of tools. It cannot be tested here, because there are no tools.")
    proof = "case" if one.kind is SkillKind.COMPOSED else "test"
    passed = f"{skill.tests} {proof}{'' if skill.tests == 1 else 's'} passed here"
    left = open_questions(skill.admission)
    if left:
        passed += f", but they prove too little, so it stays on probation ({left} unanswered questions)"
        if one.predictions and not vouched:
            passed += ". The predictions in its file do not count, unless you vouch for them with --trust-predictions"
    return ImportResult(name, "admitted", skill.version, f"{skill.name} version {skill.version} is admitted: {passed}.")


def _is_signed(one: ImportCandidate, trust: Trust) -> bool:
    """Return whether a key that is trusted here signed the skill, with the files that came with it. This blocks.

    The signature covers `SKILL.md`, which has the hashes of the other files.
    """
    try:
        signed = bool(trust.check(one.files[SKILL_FILE], one.front.name))
        described = skill_file.parse(one.files[SKILL_FILE], one.front.name)
    except SkillError:
        return False
    return signed and one.proposal is not None and has_same_files(described, one.proposal)


def _answers(one: ImportCandidate, current: Skill) -> bool:
    """Return whether a file has predictions that may answer the open questions of the same skill."""
    if not open_questions(current.admission) or not current.state.listed:
        return False
    known, reference = agreed_predictions(current.admission), kept_reference(current.admission)
    return any(each not in known for each in one.predictions) or one.reference not in ("", reference)


async def _keep_as_text(one: ImportCandidate, library: SkillLibrary) -> ImportResult:
    name = one.front.name
    skill = await library.find(skill_name(name))
    if skill is not None:
        raise SkillError(f"A skill `{skill.name}` exists already. Give the instructions another name.")
    if not await asyncio.to_thread(library.instructions.add, name, one.files):
        return ImportResult(name, "already", 0, f"The instructions {name} already exist with identical files.")
    because = f" ({one.why})" if one.why else ""
    return ImportResult(name, "instructions", 0, f"{name} is stored as instructions only{because}.")
