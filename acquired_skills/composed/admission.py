"""`Composer`: checks and proves proposals of composed skills, and publishes those that are admitted (SKILL-16)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.composed.cases import Case, read_cases
from acquired_skills.composed.checks import CheckedPipeline, check_pipeline
from acquired_skills.composed.output import derived_output
from acquired_skills.composed.pipeline import ComposedPipeline, InvalidPipeline, calls_of, read_pipeline
from acquired_skills.composed.proof import Proof, prove
from acquired_skills.composed.running import StepFailed
from acquired_skills.jobs.skill_job import job_of
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.cycles import MOST_NESTED, find_cycle, nesting_depth
from acquired_skills.model.effects import effects_of
from acquired_skills.model.proposal import OTHER_KIND, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill, SkillKind, SkillState
from acquired_skills.model.skill_schemas import usable_output_schema
from acquired_skills.proof.admitted_skill import is_unchanged, sha256
from acquired_skills.proof.static_checks import check_words
from engine.contract.spec import ToolSpec
from engine.contract.strict_json import read_json, write_json
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.outcome import failure_of
from sandbox.contract import Sandbox

DEFAULT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Composer:
    """Composes skills for one turn.

    Attributes:
        turn: The turn of the user who composes the skills. The user's permissions limit the tools that
            the skills may call.
    """

    library: SkillLibrary
    calls: InnerCalls
    sandbox: Sandbox
    turn: Turn

    async def compose(self, proposal: Proposal) -> Skill:
        """Admit a composed skill.

        Args:
            proposal: Its `code` is the pipeline and its `tests` are the cases, both as JSON.

        Raises:
            SkillRefused: The proposal was not admitted. The exception lists everything to change.
            SkillChanged: Another process changed the skill first.
            SandboxError: No box can run.
        """
        return await self._admitted(proposal)

    async def readmit(self, proposal: Proposal) -> None:
        """Run the admission of a stored pipeline again by today's rules. Nothing is stored.

        Raises:
            SkillRefused: The pipeline would not be admitted today. The exception lists everything to change.
            SandboxError: No box can run.
        """
        await self._admitted(proposal, stored=True)

    async def _admitted(self, proposal: Proposal, *, stored: bool = False) -> Skill:
        """Admit a proposal and return the skill, which is published unless it is already stored."""
        proposal = replace(proposal, description=proposal.description.strip())
        problems = await asyncio.to_thread(check_words, proposal, self.library.static_names())
        pipeline, cases = _read(proposal, problems)
        if problems or pipeline is None:
            raise SkillRefused(proposal.name, problems)
        proposal = replace(
            proposal,
            code=write_json(read_json(proposal.code)),
            tests=write_json(read_json(proposal.tests)),
        )
        current = await self.library.find(proposal.name)
        earlier = [] if stored else await self._earlier(proposal, current)
        tools = await self._tools(pipeline)
        checked = await self._checked(proposal, pipeline, tools)
        proof = await prove(pipeline, cases, earlier, self._run_skill, self.library.mutation_threshold)
        if proof.problems:
            raise SkillRefused(proposal.name, proof.problems)
        skill = self._skill(
            proposal=proposal, pipeline=pipeline, checked=checked, tools=tools, cases=cases, proof=proof
        )
        returns = derived_output(pipeline, checked.parameters, tools)
        expected = [{"value": case.expect} for case in cases if case.expects]
        skill = replace(skill, returns=await asyncio.to_thread(usable_output_schema, returns, expected))
        if stored:
            return skill
        return await self.library.publish(skill, proposal, current.version if current else 0)

    async def _earlier(self, proposal: Proposal, current: Skill | None) -> list[Case]:
        """Return the cases of the previous version, which the new version must pass, too."""
        if current is None:
            return []
        if is_unchanged(current, proposal):
            same = f"The proposal is identical to version {current.version}, so there is nothing to do."
            raise SkillRefused(proposal.name, [ProposalProblem("version", same)])
        if proposal.breaking:
            return []
        if current.kind is not SkillKind.COMPOSED:
            raise SkillRefused(
                proposal.name,
                [ProposalProblem("version", f"The current version is a {current.kind} skill: {OTHER_KIND}")],
            )
        return read_cases((await self.library.tests(current)).decode())

    async def _tools(self, pipeline: ComposedPipeline) -> dict[str, ToolSpec]:
        found = {name: await self.calls.find(name, self.turn) for name in calls_of(pipeline)}
        return {name: tool.spec for name, tool in found.items() if tool is not None}

    async def _checked(
        self, proposal: Proposal, pipeline: ComposedPipeline, tools: Mapping[str, ToolSpec]
    ) -> CheckedPipeline:
        """Run the static checks.

        Raises:
            SkillRefused: A check failed. The exception lists every problem.
        """
        skills = self.library.known
        problems, calls = [], calls_of(pipeline)
        if way := await asyncio.to_thread(find_cycle, proposal.name, calls, skills):
            problems.append(f"The skill would call itself: {' -> '.join(way)}. Remove one of these calls.")
        elif await asyncio.to_thread(nesting_depth, calls, skills) >= MOST_NESTED:
            problems.append(
                f"Composed skills would be nested more than {MOST_NESTED} levels deep. Replace a call of a composed "
                "skill with the steps of its pipeline."
            )
        checked = await asyncio.to_thread(check_pipeline, pipeline, tools, self.turn)
        problems += checked.problems
        if problems:
            raise SkillRefused(proposal.name, [ProposalProblem("pipeline", text) for text in problems])
        return checked

    async def _run_skill(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any] | None:
        """Run a skill and return its value in a tuple.

        Return None for a composed skill, a skill with network destinations or tools, and any tool that is not a skill.

        Raises:
            StepFailed: The skill failed.
            SandboxError: No box can run.
        """
        skill = await self.library.find(name)
        if skill is None or skill.calls or skill.destinations:
            return None
        outcome = await self.sandbox.run(job_of(skill, await self.library.program(skill), arguments))
        if not outcome.ok:
            raise StepFailed("", str(failure_of(outcome, f"The skill `{name}`")), tool=name)
        return (outcome.value,)

    def _skill(
        self,
        *,
        proposal: Proposal,
        pipeline: ComposedPipeline,
        checked: CheckedPipeline,
        tools: Mapping[str, ToolSpec],
        cases: list[Case],
        proof: Proof,
    ) -> Skill:
        return Skill(
            name=proposal.name,
            version=0,
            state=SkillState.PROBATION,
            description=proposal.description,
            parameters=checked.parameters,
            plain=True,
            imports=(),
            created=self.library.now(),
            code_sha256=sha256(proposal.code),
            tests_sha256=sha256(proposal.tests),
            tests=len(cases),
            examples=proposal.examples,
            provenance=dict(proposal.provenance),
            timeout_s=proposal.timeout_s,
            admission={"mutants": {"met": proof.tried, "killed": proof.killed, "survived": proof.survived}},
            kind=SkillKind.COMPOSED,
            calls=calls_of(pipeline),
            effects=effects_of(tools.values()).model_dump(mode="json"),
        )


def _read(proposal: Proposal, problems: list[ProposalProblem]) -> tuple[ComposedPipeline | None, list[Case]]:
    pipeline, cases = None, []
    try:
        pipeline = read_pipeline(proposal.code)
    except InvalidPipeline as error:
        problems += [ProposalProblem("pipeline", line) for line in error.lines]
    try:
        cases = read_cases(proposal.tests)
    except InvalidPipeline as error:
        problems += [ProposalProblem("cases", line) for line in error.lines]
    return pipeline, cases
