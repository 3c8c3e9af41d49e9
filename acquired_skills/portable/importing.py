"""Import: skills from elsewhere come in by the door that every proposal uses; those without tests are text to read."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from acquired_skills.composed.admission import Composer
from acquired_skills.lifecycle.approvals import Ask
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.names import skill_name
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.skill import SkillError, SkillKind
from acquired_skills.portable.reading import Arrived, arrived
from acquired_skills.proof.admitted_skill import sha256
from acquired_skills.store.archive import Unreadable, read_skills
from engine.contract.failure import ToolFailure


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of one skill. version: of an admitted one, 0 otherwise. text: a line for people."""

    name: str
    outcome: Literal["admitted", "already", "instructions", "refused"]
    version: int
    text: str


async def bring_in(
    path: Path,
    library: SkillLibrary,
    *,
    provenance: Mapping[str, str],
    composer: Composer | None = None,
    ask: Ask | None = None,
    as_text: bool = False,
) -> list[Brought]:
    """Import all skills of a folder or a zip file; what fails does not keep the others out.

    composer: for pipelines, which are proved with the tools that there are here, after the code that came with them;
    without one they are refused.
    as_text: keep them as instructions, also those that could be proved. Raises Unreadable, before anything is kept,
    when what is there cannot be trusted to be read.
    """
    found = await asyncio.to_thread(_read, path, dict(provenance))
    names = [one.front.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Unreadable(f"{path} has more than one skill called {', '.join(twice)}.")
    brought: list[Brought] = []
    for one in sorted(found, key=lambda one: one.kind is SkillKind.COMPOSED):
        try:
            brought.append(await _bring(one, library, composer, ask, as_text=as_text))
        except (SkillRefused, SkillError, ToolFailure) as error:
            brought.append(Brought(one.front.name, "refused", 0, str(error)))
    return brought


def _read(path: Path, provenance: dict[str, str]) -> list[Arrived]:
    whole = path.resolve()
    return [arrived(files, whole.name, provenance) for files in read_skills(whole)]


async def _bring(
    one: Arrived, library: SkillLibrary, composer: Composer | None, ask: Ask | None, *, as_text: bool
) -> Brought:
    name, proposal = one.front.name, one.proposal
    if proposal is None or as_text:
        return await _keep_as_text(one, library)
    current = await library.find(proposal.name)
    hashes = (sha256(proposal.code), sha256(proposal.tests))
    if current is not None and (current.code_sha256, current.tests_sha256) == hashes:
        told = f"{proposal.name} is there already, with the same code and tests: version {current.version}"
        return Brought(name, "already", current.version, f"{told}, {current.state}.")
    if one.kind is not SkillKind.COMPOSED:
        skill = await library.create(proposal, ask=ask)
    elif composer is not None:
        skill = await composer.compose(proposal)
    else:
        raise SkillError(f"{name} is a pipeline of tools, and no tools are at hand to prove it with.")
    proof = "case" if one.kind is SkillKind.COMPOSED else "test"
    passed = f"{skill.tests} {proof}{'' if skill.tests == 1 else 's'} passed here"
    return Brought(name, "admitted", skill.version, f"{skill.name} version {skill.version} is admitted: {passed}.")


async def _keep_as_text(one: Arrived, library: SkillLibrary) -> Brought:
    name = one.front.name
    skill = await library.find(skill_name(name))
    if skill is not None:
        raise SkillError(f"There is a skill `{skill.name}`, so no instructions of that name are kept beside it.")
    if not await asyncio.to_thread(library.instructions.add, name, one.files):
        return Brought(name, "already", 0, f"The instructions {name} are there already, the same in every byte.")
    because = f" ({one.why})" if one.why else ""
    return Brought(name, "instructions", 0, f"{name} is kept as instructions only, and never run{because}.")
