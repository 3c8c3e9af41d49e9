"""`SkillTool`: one acquired skill as a tool. Each call runs its code in a fresh box (SKILL-12)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acquired_skills.jobs.environment import not_allowed, refused_connections
from acquired_skills.jobs.skill_job import job_of
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import Skill, SkillDamaged, SkillState
from acquired_skills.model.skill_schemas import misfit_failure, why_misfit
from acquired_skills.store.failed_inputs import as_tests, visible_user
from engine.contract.context import CallContext, Produced, no_progress
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.spec import Origin, ToolSpec
from engine.contract.tool_programs import ToolPrograms
from engine.dispatch.forwarding import Pieces
from engine.dispatch.outcome import failure_of
from engine.dispatch.refusals import not_configured
from engine.dispatch.render import is_large
from sandbox.contract import Destination, Job, Mount, Outcome, SandboxError

GRACE_S = 2.0  # the box ends a call this many seconds before the engine's deadline, so that it can report the reason
_TOOL_ERROR = "ToolError"  # the exception of a skill whose tool failed
_PRINTED = 2_000  # maximum number of bytes of stdout in the message of a failure
BUILD_S = 120.0  # time limit in seconds for rebuilding an evicted environment


@dataclass(frozen=True, slots=True)
class SkillTool:
    """A skill as a tool, with the library that the skill belongs to."""

    skill: Skill
    library: SkillLibrary
    spec: ToolSpec

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Run the skill in a box and return its value as JSON.

        Raises:
            ToolFailure: The code failed, or the skill was not run, for example because it is disabled.
            SandboxError: No box can run.
        """
        await self._refuse(ctx)
        job = await self._job(ctx, arguments)
        began = ctx.clock.monotonic()
        try:
            outcome = await self._outcome(ctx, job)
        except SandboxError:
            if not ctx.turn.trial:
                self._log(ctx, began, FailureClass.RETRYABLE)  # the failure is the engine's, not the skill's
            raise
        wrong = await self._misfit(outcome.value) if outcome.ok else ""
        if outcome.ok and not wrong:
            if ctx.turn.trial:
                return _answer(outcome)
            self._log(ctx, began, None)
            if not self.library.track.keeps_state(self.skill):
                await self.library.judge(self.skill)
            return _answer(outcome)
        refused = refused_connections(outcome.connections)
        failure = self._failure(outcome, wrong, refused)
        if ctx.turn.trial:  # the track record and the state of the skill must not depend on trials
            raise failure
        if self.skill.calls and outcome.error is not None and outcome.error.type == _TOOL_ERROR:
            self._log(ctx, began, FailureClass.RETRYABLE)  # the fault is that of the tool
            raise failure
        self._log(ctx, began, failure.failure_class)
        said = wrong or (outcome.error.message if outcome.error else f"ended by {outcome.end}")
        await self.library.track.keep_failed(self.skill, arguments, said, ctx.turn)
        if await self.library.judge(self.skill) is SkillState.QUARANTINED:
            failure = self._failure(outcome, wrong, f"{refused}\n{await self._quarantined(ctx)}".strip())
        raise failure

    async def _refuse(self, ctx: CallContext) -> None:
        """Refuse the call if the skill is not listed, or if it calls tools in a trial.

        Raises:
            ToolFailure: Nothing may be run.
        """
        if not self.skill.state.listed:
            raise refusal(await self._why_not(ctx), "skill_not_listed")
        if self.skill.calls and ctx.turn.trial:
            text = f"`{self.skill.name}` calls other tools, so it cannot be called in a trial. Nothing was run."
            raise refusal(text, "not_in_trials")

    async def _outcome(self, ctx: CallContext, job: Job) -> Outcome:
        """Run the job, with a bridge to the tools that the skill declares, if there are any."""
        if not self.skill.calls:
            return await ctx.sandbox.run(job, on_output=None if ctx.progress is no_progress else Pieces(ctx))
        what = f"The skill `{self.skill.name}`"
        programs: ToolPrograms | None = ctx.services.get(ToolPrograms)
        if programs is None:
            raise not_configured(f"{what} calls other tools, but no installed pack runs programs that do.")
        return await programs.run_declared(ctx, job, what, self.skill.calls)

    async def _misfit(self, value: Any) -> str:
        """Return how a value differs from the skill's output schema, or "" if it fits."""
        schema = self.skill.returns
        if schema is None:
            return ""
        return await asyncio.to_thread(why_misfit, value, schema) if is_large(value) else why_misfit(value, schema)

    def _failure(self, outcome: Outcome, wrong: str, remark: str) -> ToolFailure:
        if wrong:
            printed = outcome.stdout[-_PRINTED:].decode(errors="replace").strip()
            return misfit_failure(self.skill.name, wrong, f"It printed:\n{printed}\n{remark}" if printed else remark)
        return failure_of(outcome, f"The skill `{self.skill.name}`", remark)

    async def _why_not(self, ctx: CallContext) -> str:
        if self.skill.state is SkillState.QUARANTINED:
            return f"{await self._quarantined(ctx)}\nNothing was run."
        return f"The skill `{self.skill.name}` is {self.skill.state}, so it was not run. Enable it with manage_skills."

    async def _quarantined(self, ctx: CallContext) -> str:
        """Return the message about a quarantined skill, with this user's failed inputs as test cases."""
        name, failed = self.skill.name, await self.library.track.failed_inputs(self.skill, visible_user(ctx.turn))
        cases = f". Add tests for its failed calls:\n{as_tests(name, failed, self.skill.kind)}" if failed else "."
        return (
            f"`{name}` version {self.skill.version} failed so often that it is quarantined and no longer offered. "
            f"Propose a repaired version with create_skill{cases}"
        )

    async def _job(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Job:
        skill = self.skill
        destinations = tuple(map(Destination.parse, skill.destinations))
        refused = not_allowed(destinations, self.library.allowed)  # the configuration may have changed since admission
        if refused:
            text = f"The skill `{skill.name}` was not run. {refused}"
            raise refusal(text, "destination_not_allowed", FailureClass.FATAL)
        try:
            program = await self.library.program(skill)
        except SkillDamaged as damage:
            text = (
                f"{damage} The skill was not run. Set its folder aside with `knackbox skills verify`, then create it "
                "again with create_skill."
            )
            raise refusal(text, "skill_damaged", FailureClass.FATAL) from damage
        return job_of(skill, program, arguments, None if ctx.turn.trial else Mount(ctx.workspace.root))

    def _log(self, ctx: CallContext, began: float, failure_class: FailureClass | None) -> None:
        latency_ms = (ctx.clock.monotonic() - began) * 1000
        self.library.track.log(self.skill, failure_class is None, latency_ms, failure_class)


def skill_tool(skill: Skill, library: SkillLibrary) -> SkillTool:
    """Return the tool of a skill."""
    spec = ToolSpec(
        name=skill.name,
        description=skill.description,
        parameters=skill.parameters,
        version=str(skill.version),
        origin=Origin.ACQUIRED,
        category="skill",
        required_permission="user",
        requires=("sandbox",),
        side_effects=_side_effects(skill),
        timeout_s=skill.timeout_s + GRACE_S + (BUILD_S if skill.environment else 0),
        meta={
            "state": skill.state.value,
            "examples": skill.examples,
            **({"calls": skill.calls} if skill.calls else {}),
        },
        returns=skill.returns,
    )
    return SkillTool(skill, library, spec)


def _side_effects(skill: Skill) -> tuple[str, ...]:
    network = ("network",) if skill.destinations else ()
    return ("workspace_write", *network, *(("tool_calls",) if skill.calls else ()))


def _answer(outcome: Outcome) -> Any:
    """Return the value of a call or, if the skill only prints, its output."""
    if outcome.value is None and outcome.stdout.strip():
        return Produced(None, outcome.stdout.decode(errors="replace"))
    return outcome.value
