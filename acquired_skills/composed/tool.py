"""`ComposedTool`: a composed skill as one tool. Each step is a separate call through the engine's dispatch.

The tool takes the arguments of the pipeline, and `resume`, which resumes a failed run without repeating finished steps.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from acquired_skills.composed.checks import RESUME
from acquired_skills.composed.pipeline import ComposedPipeline, InvalidPipeline, read_pipeline
from acquired_skills.composed.running import PipelineRun, StepFailed
from acquired_skills.composed.runs import KEPT_H, ComposedCall, KeptRuns, OpenRun, RunMissing
from acquired_skills.composed.steps import Steps
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.effects import Effects
from acquired_skills.model.skill import Skill, SkillDamaged, SkillState
from engine.contract.context import CallContext, Produced
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.spec import Annotations, Origin, ToolSpec
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.render import render

GRACE_S = 2.0
_RESUME_SCHEMA = {
    "type": "object",
    "description": "Only to resume a failed call. run: the id in its error; by default the latest run with the same "
    "arguments. Keep all other arguments. repeat: also repeat steps that may already have run.",
    "properties": {"run": {"type": "string", "maxLength": 40}, "repeat": {"type": "boolean", "default": False}},
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ComposedTool:
    """A composed skill as a tool, with the library that it belongs to."""

    skill: Skill
    library: SkillLibrary
    spec: ToolSpec

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Run the pipeline and return its output.

        Raises:
            ToolFailure: A step failed. The message names the step and says how to resume.
        """
        if not self.skill.state.listed:
            raise refusal(
                f"The skill `{self.skill.name}` is {self.skill.state}, so nothing was run. Enable it with "
                "manage_skills, or compose a repaired version with compose_skill.",
                "skill_not_listed",
            )
        if ctx.turn.trial:
            text = f"`{self.skill.name}` calls other tools, so it cannot be called in a trial. Nothing was run."
            raise refusal(text, "not_in_trials")
        own = {name: value for name, value in arguments.items() if name != RESUME}
        resume = arguments.get(RESUME)
        pipeline = await self._pipeline()
        calls, runs = ctx.need(InnerCalls), ctx.need(KeptRuns)
        run = await self._open(runs, resume, ComposedCall(ctx.turn.user, self.skill.name, self.skill.version, own))
        steps = Steps(ctx, calls, runs, run, bool(resume and resume.get("repeat")))
        began = ctx.clock.monotonic()
        try:
            output = await PipelineRun(steps).run(pipeline, own)
        except StepFailed as error:
            await asyncio.to_thread(runs.stop, run)
            raise await self._failed(ctx, began, own, steps, error) from error
        except BaseException:
            # Shielded, because a cancelled call must not leave a run that is marked as running.
            await asyncio.shield(asyncio.to_thread(runs.stop, run))
            raise
        await asyncio.to_thread(runs.forget, run)
        self._log(ctx, began, None)
        if not self.library.track.keeps_state(self.skill):
            await self.library.judge(self.skill)
        return Produced(output, render(output)[1], tuple(dict.fromkeys(steps.side_effects)))

    async def _pipeline(self) -> ComposedPipeline:
        try:
            return read_pipeline((await self.library.code(self.skill)).decode())
        except (SkillDamaged, InvalidPipeline, UnicodeDecodeError) as damage:
            text = (
                f"{damage} The skill was not run. Set its folder aside with `knackbox skills verify`, then compose it "
                "again with compose_skill."
            )
            raise refusal(text, "skill_damaged", FailureClass.FATAL) from damage

    async def _open(self, runs: KeptRuns, resume: Mapping[str, Any] | None, call: ComposedCall) -> OpenRun:
        begin = partial(runs.begin, call) if resume is None else partial(runs.resume, resume.get("run"), call)
        opening = asyncio.ensure_future(asyncio.to_thread(begin))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # the call was cancelled, so nobody receives the error
                await asyncio.to_thread(runs.stop, await opening)
            raise
        except RunMissing as error:
            text = f"`{self.skill.name}` cannot resume that run: {error}. Nothing was run."
            raise refusal(text, "run_missing") from error

    async def _failed(
        self, ctx: CallContext, began: float, arguments: Mapping[str, Any], steps: Steps, error: StepFailed
    ) -> ToolFailure:
        """Return the failure of the whole call. Record it against the skill only if the fault is in the pipeline."""
        self._log(ctx, began, FailureClass.RETRYABLE if error.elsewhere else error.failure_class)
        quarantined = ""
        if not error.elsewhere:
            await self.library.track.keep_failed(self.skill, arguments, str(error), ctx.turn)
            if await self.library.judge(self.skill) is SkillState.QUARANTINED:
                quarantined = "\nThe skill failed so often that it is quarantined. Compose a repaired version."
        what = f"call of `{error.tool}`, " if error.tool else ""
        done = len(steps.run.finished) + steps.called > 0
        how_to_resume = (
            f"\nThe outputs of the earlier steps are stored for {KEPT_H} h. To resume, call `{self.skill.name}` with "
            f'the same arguments and `{RESUME}`: {{"run": "{steps.run.id}"}}.'
        )
        # A retry by the engine would start again at the first step, so the failure is not reported as retryable.
        passed_on = error.failure_class
        return ToolFailure(
            f"`{self.skill.name}` stopped at step `{error.place}` ({what}{error.failure_class}, {error.reason}): "
            f"{error}{how_to_resume if done and not quarantined else ''}{quarantined}",
            failure_class=FailureClass.DIAGNOSTIC if passed_on is FailureClass.RETRYABLE else passed_on,
            reason="step_failed",
            may_have_started=error.ran or done,
        )

    def _log(self, ctx: CallContext, began: float, failure_class: FailureClass | None) -> None:
        latency_ms = (ctx.clock.monotonic() - began) * 1000
        self.library.track.log(self.skill, failure_class is None, latency_ms, failure_class)


def composed_tool(skill: Skill, library: SkillLibrary) -> ComposedTool:
    """Return the tool of a composed skill, with the combined effects of its steps at admission.

    Steps ask for confirmation themselves, with their actual arguments.
    """
    effects = Effects.model_validate(skill.effects)
    parameters = {**skill.parameters, "properties": {**skill.parameters.get("properties", {}), RESUME: _RESUME_SCHEMA}}
    spec = ToolSpec(
        name=skill.name,
        description=skill.description,
        parameters=parameters,
        returns=skill.returns,
        version=str(skill.version),
        origin=Origin.COMPOSED,
        category="skill",
        safety_class=effects.safety_class,
        required_permission=effects.required_permission,
        caps_required=effects.caps_required,
        requires=effects.requires,
        side_effects=effects.side_effects,
        annotations=Annotations(read_only=effects.read_only, destructive=effects.destructive),
        timeout_s=skill.timeout_s + GRACE_S,
        meta={"state": skill.state.value, "examples": skill.examples, "calls": skill.calls},
    )
    return ComposedTool(skill, library, spec)
