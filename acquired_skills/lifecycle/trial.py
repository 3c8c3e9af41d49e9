"""Compares two skills for the same purpose by calling both with the same inputs (SKILL-13).

For both skills, the inputs are the arguments of four kinds of calls: calls in the skill's tests, corrected calls,
failed calls and other past calls.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from acquired_skills.jobs.skill_job import job_of
from acquired_skills.lifecycle.corrections import is_right, same_value, shown_result
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import Skill, SkillError
from acquired_skills.model.skill_schemas import why_misfit
from acquired_skills.proof.admission import calls_of_tests
from acquired_skills.proof.programs.program_admission import calls_of_cases
from acquired_skills.store.corrected_calls import CorrectedCall
from sandbox.contract import Language, Outcome, Sandbox

MOST_INPUTS = 200


class Contestant(NamedTuple):
    """A skill in a trial, with its program and tests."""

    skill: Skill
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The results of two skills for one input.

    Attributes:
        arguments: The input.
        old, new: The result of each skill, as text.
        same: Whether the two results are the same.
        right: The correct result, as text; "" if it is not known.
        worse: Whether the new skill does not give the known correct result. If no correct result is known, whether the
            new skill fails and the old one does not.
    """

    arguments: Mapping[str, Any]
    old: str
    new: str
    same: bool
    right: str
    worse: bool


@dataclass(frozen=True, slots=True)
class SkillTrial:
    """The results of a trial.

    Attributes:
        unfit: The number of inputs that were left out because they do not fit the parameters of both skills.
    """

    results: tuple[TrialResult, ...]
    unfit: int

    @property
    def differences(self) -> list[TrialResult]:
        return [one for one in self.results if not one.same or one.worse]

    def value(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        differences = [{**asdict(one), "arguments": dict(one.arguments)} for one in self.differences]
        return {"tried": len(self.results), "unfit": self.unfit, "differences": differences}

    @property
    def worse(self) -> list[TrialResult]:
        return [one for one in self.results if one.worse]


class SkillTrials:
    """Runs trials of the skills of one home."""

    def __init__(self, track: TrackRecord, sandbox: Sandbox, seed: Callable[[], int]) -> None:
        """Create the object from its parts.

        Args:
            seed: Returns the seed for the random order of tests.
        """
        self._track = track
        self._sandbox = sandbox
        self._seed = seed

    async def run(
        self, old: Contestant, new: Contestant, user: str | None, past: Iterable[Mapping[str, Any]] = ()
    ) -> SkillTrial:
        """Call both skills with the same inputs, each call in its own box without a workspace.

        Args:
            user: The user whose failed inputs are used; None for all users.
            past: Arguments of past calls of either skill.

        Raises:
            SkillError: The skills are the same, or calls of one of them may have effects.
            SandboxError: No box can run.
        """
        if old.skill.name == new.skill.name:
            raise SkillError(f"`{old.skill.name}` cannot be compared with itself: name another skill.")
        for each in (old.skill, new.skill):
            if each.calls or each.destinations:
                what = "calls other tools" if each.calls else "connects to other machines"
                raise SkillError(f"`{each.name}` {what}, so its calls may have effects. A trial makes no such calls.")
        inputs = await self._inputs(old, new, user, past)
        fitting = await asyncio.to_thread(_fitting, inputs, old.skill, new.skill)
        results = [await self._tried(old, new, call, known) for call, known in fitting[:MOST_INPUTS]]
        return SkillTrial(tuple(results), len(inputs) - len(fitting))

    async def hand_over(self, old: Skill, new: Skill, trial: SkillTrial) -> None:
        """Copy the corrections that the trial tried from the old skill to the new one, which replaces it.

        Raises:
            SkillError: The trial does not show that the new skill can replace the old one, or the new one is not
                listed.
        """
        if not new.state.listed:
            raise SkillError(f"`{new.name}` is {new.state}, so it cannot replace `{old.name}`: enable it first.")
        if not trial.results or trial.worse:
            number = len(trial.results)
            why = f"is worse on {len(trial.worse)} of {number} inputs" if number else "has no inputs in common with it"
            raise SkillError(f"`{old.name}` was not replaced: `{new.name}` {why}.")
        tried = [one.arguments for one in trial.results]
        for call in await asyncio.to_thread(self._track.corrected.of, old.name):
            if call.arguments in tried:
                await asyncio.to_thread(self._track.corrected.keep, new.name, call)

    async def _inputs(
        self, old: Contestant, new: Contestant, user: str | None, past: Iterable[Mapping[str, Any]]
    ) -> list[tuple[CorrectedCall, bool]]:
        """Return each input once, and whether its correct result is known.

        If both skills have a correction of the same call, the new skill's correction is used.
        """
        found: dict[str, tuple[CorrectedCall, bool]] = {}
        for each in (new, old):
            for call in await asyncio.to_thread(self._track.corrected.of, each.skill.name):
                found.setdefault(_key(call.arguments), (call, True))
        unknown: list[Mapping[str, Any]] = []
        for each in (old, new):
            unknown += await self._calls_of_tests(each)
            unknown += [failed.arguments for failed in await self._track.failed_inputs(each.skill, user)]
        for arguments in (*unknown, *past):
            found.setdefault(_key(arguments), (CorrectedCall(arguments), False))
        return list(found.values())

    async def _calls_of_tests(self, each: Contestant) -> list[dict[str, Any]]:
        if each.proposal.language is not Language.PYTHON:
            return calls_of_cases(each.proposal)
        parsed = await asyncio.to_thread(ParsedProposal.parse, each.proposal)
        try:
            return await calls_of_tests(parsed, self._sandbox, seed=self._seed())
        except SkillRefused:  # its tests no longer pass, and `knackbox skills audit` says why
            return []

    async def _tried(self, old: Contestant, new: Contestant, call: CorrectedCall, known: bool) -> TrialResult:
        before, after = await asyncio.gather(
            *(
                self._sandbox.run(job_of(each.skill, SkillProgram.of(each.proposal), call.arguments))
                for each in (old, new)
            )
        )
        return TrialResult(
            arguments=call.arguments,
            old=shown_result(before),
            new=shown_result(after),
            same=_alike(before, after),
            right=call.right if known else "",
            worse=not is_right(after, call) if known else before.ok and not after.ok,
        )


def _fitting(inputs: Sequence[tuple[CorrectedCall, bool]], old: Skill, new: Skill) -> list[tuple[CorrectedCall, bool]]:
    """Return the inputs that fit the parameters of both skills."""
    return [
        each
        for each in inputs
        if not any(why_misfit(dict(each[0].arguments), skill.parameters) for skill in (old, new))
    ]


def _alike(one: Outcome, other: Outcome) -> bool:
    if one.ok and other.ok:
        return same_value(one.value, other.value)
    return one.error is not None and other.error is not None and one.error.type == other.error.type


def _key(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


def past_arguments(texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """Parse the arguments of recorded calls. Arguments that were too long to be recorded completely are left out."""
    found: list[Mapping[str, Any]] = []
    for text in texts:
        with contextlib.suppress(ValueError):
            arguments = json.loads(text)
            if isinstance(arguments, dict):
                found.append(arguments)
    return found
