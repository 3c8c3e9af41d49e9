"""Tries a new version of a skill on the inputs on which the current version failed in use (SKILL-13).

Both versions are called in boxes without a workspace. What counts is only whether they fail: nobody knows the right
result. Inputs belong to the users who sent them, so the note about them, which everybody can read, has only numbers and
built-in types of exceptions. Inputs on which the new version fails are recorded for it, and are shown to their users.
"""

import asyncio
import builtins
from collections import Counter
from dataclasses import dataclass, replace

from acquired_skills.jobs.skill_job import job_of
from acquired_skills.lifecycle.stored_skills import StoredSkills
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill, SkillDamaged, SkillKind
from acquired_skills.model.skill_schemas import why_misfit
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.store.failed_inputs import FailedInput
from sandbox.contract import Outcome, Sandbox

MOST_TRIED = 10  # maximum number of inputs, the latest ones
_WALL_S = 5.0  # time limit of one call; inputs that need more are not tried
_NO_FILES = "FileNotFoundError"  # the call needs a workspace, which it does not have here


@dataclass(frozen=True, slots=True)
class TriedFailures:
    """What a new version does with the inputs on which the current version failed.

    Attributes:
        version: The number of the current version.
        fixed: The number of inputs on which only the current version fails.
        failing: The inputs on which both fail, each with the message of the new version's exception.
        kinds: The types of these exceptions.
        untried: The number of inputs that could not be compared: they do not fit the new parameters, the current
            version does not fail on them here, or they need files or more time.
    """

    version: int = 0
    fixed: int = 0
    failing: tuple[FailedInput, ...] = ()
    untried: int = 0
    kinds: tuple[str, ...] = ()

    def note(self) -> str:
        """Return a sentence for the admission report; "" if no inputs were compared."""
        tried = self.fixed + len(self.failing)
        if not tried:
            return ""
        kinds = Counter(map(_shown, self.kinds))
        parts = [f"{self.fixed} no longer fail{'s' if self.fixed == 1 else ''}"] if self.fixed else []
        parts += [f"{n} still fail{'s' if n == 1 else ''} with {kind}" for kind, n in sorted(kinds.items())]
        more = f" {self.untried} more could not be compared." if self.untried else ""
        calls = f"Of {tried} call{'' if tried == 1 else 's'} on which version {self.version} failed in use"
        return f"{calls}, {', '.join(parts)}.{more}"


async def try_earlier_failures(
    library: StoredSkills, current: Skill | None, new: Skill, program: SkillProgram, sandbox: Sandbox
) -> TriedFailures:
    """Call two versions of a skill with the failed inputs of the current one. Nothing is stored.

    A skill that calls tools or connects to destinations is not tried, since it could pass on the inputs of other users.

    Args:
        current: The current version; None if there is none.
        new: The admitted version, which is not published yet.
        program: The files of the new version.

    Raises:
        SandboxError: No box can run.
    """
    if current is None or not (_is_closed(current) and _is_closed(new)):
        return TriedFailures()
    found = TriedFailures(current.version)
    failed = [each for each in await library.track.failed_inputs(current, None) if not each.is_known]
    try:
        own = await library.program(current) if failed else None
    except SkillDamaged:
        own = None
    if own is None:
        return found
    latest = failed[-MOST_TRIED:]
    fitting = [each for each in latest if not why_misfit(dict(each.arguments), new.parameters)]
    calls = (_called(*of, each, sandbox) for each in fitting for of in ((current, own), (new, program)))
    outcomes = await asyncio.gather(*calls)
    for each, before, now in zip(fitting, outcomes[::2], outcomes[1::2], strict=True):
        if not _has_failed(before):
            continue
        if now.ok:
            found = replace(found, fixed=found.fixed + 1)
        elif now.error is not None and _has_failed(now):
            failing = (*found.failing, replace(each, error=f"{now.error.type}: {now.error.message}"))
            found = replace(found, failing=failing, kinds=(*found.kinds, now.error.type))
    return replace(found, untried=len(latest) - found.fixed - len(found.failing))


def with_note(skill: Skill, note: str) -> Skill:
    """Return a skill with one more note in its admission report; the skill itself if the note is empty."""
    if not note:
        return skill
    return replace(skill, admission={**skill.admission, "notes": [*report_notes(skill.admission), note]})


def _has_failed(outcome: Outcome) -> bool:
    """Return whether a call raised an exception, other than for a file that is only in the user's workspace."""
    return outcome.error is not None and outcome.error.type != _NO_FILES


def _shown(kind: str) -> str:
    """Return the name of a type of exception if it is built in. Code could put an input into that of its own."""
    found = getattr(builtins, kind, None)
    return kind if isinstance(found, type) and issubclass(found, BaseException) else "another exception"


def _is_closed(skill: Skill) -> bool:
    return skill.kind is not SkillKind.COMPOSED and not skill.calls and not skill.destinations


async def _called(skill: Skill, program: SkillProgram, given: FailedInput, sandbox: Sandbox) -> Outcome:
    job = job_of(skill, program, given.arguments)
    return await sandbox.run(replace(job, limits=replace(job.limits, wall_s=min(_WALL_S, job.limits.wall_s))))
