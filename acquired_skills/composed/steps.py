"""`Steps`: makes the calls of one run of a composed skill through the engine's dispatch, and records their outputs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.composed.checks import NO_STEPS
from acquired_skills.composed.downstream import SkillResult, keep_causes
from acquired_skills.composed.pipeline import CallStep
from acquired_skills.composed.running import StepFailed
from acquired_skills.composed.runs import KeptRuns, OpenRun
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.skill import Skill
from engine.contract.context import CallContext
from engine.contract.failure import Failure, FailureClass
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import Origin, ToolSpec
from engine.contract.strict_json import too_deep
from engine.dispatch.inner_calls import InnerCalls
from engine.policy.access import DENIED, DISCOVERY_TOOLS, denial, why_not
from engine.recovery.advise import without_fatal_advice

# The ways in which a box can end (`audit.end`) if the skill has certainly failed and is no longer running.
_ENDED = frozenset({"error", "timeout", "cpu", "memory", "output", "disk", "processes", "files", "file_size", "policy"})


@dataclass(slots=True)
class Steps:
    """Makes the calls of one run and stores their outputs.

    Attributes:
        repeat: Whether to repeat steps that may already have run.
        side_effects: The side effects of all steps so far.
        called: The number of steps that were called.
        results: The results of the skills that were called.
    """

    ctx: CallContext
    calls: InnerCalls
    runs: KeptRuns
    run: OpenRun
    repeat: bool = False
    side_effects: list[str] = field(default_factory=list)
    called: int = 0
    results: list[SkillResult] = field(default_factory=list)

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any:
        """Call a step and return its output. A step that finished before the run was resumed is not called again.

        Raises:
            StepFailed: The step failed, or may not be called.
        """
        tool = await self.calls.find(step.call, self.ctx.turn)
        if tool is None:
            raise StepFailed(place, f"the tool `{step.call}` no longer exists", tool=step.call)
        spec = tool.spec
        if spec.category in NO_STEPS or spec.name in DISCOVERY_TOOLS:  # another tool may have this name now
            raise StepFailed(place, f"`{spec.name}` cannot be a step", tool=step.call, elsewhere=True)
        if place in self.run.finished:
            # The user may resume through another agent, which must not read the output of a tool that it may not call.
            if reason := why_not(spec, self.ctx.turn):
                raise StepFailed(place, denial(spec.name, reason), tool=step.call, reason=DENIED, elsewhere=True)
            return self.run.finished[place]
        if place in self.run.unsure and not spec.replay_safe and not self.repeat:
            raise StepFailed(
                place,
                "the step was called before, but it is unknown whether that call succeeded. The step was not called "
                "again. Check whether that call had its effect. To call the step again, add `repeat: true` to `resume`",
                tool=step.call,
                reason="may_have_happened",
                ran=True,
                elsewhere=True,
            )
        await asyncio.to_thread(self.runs.started, self.run, place)
        self.called += 1
        result = await self.calls.call(self.ctx, ToolCall(step.call, inputs, place))
        if result.success:
            self.side_effects += result.side_effects
            if too_deep(result.output):
                raise StepFailed(place, "the output is nested too deeply to be passed on", tool=step.call, ran=True)
            if isinstance(skill := getattr(tool, "skill", None), Skill):
                self.results.append(SkillResult(skill, inputs, result.output))
            await asyncio.to_thread(self.runs.finished, self.run, place, result.output)
            return result.output
        failure = result.failure or Failure(FailureClass.UNKNOWN, "unexpected")
        if not failure.may_have_started or _surely_failed(spec, result):
            await asyncio.to_thread(self.runs.did_not_happen, self.run, place)
        await self._keep_causes(failure, inputs, result.error)
        raise StepFailed(
            place,
            without_fatal_advice(result.error),  # the failure of the whole call adds this advice once
            tool=step.call,
            failure_class=failure.failure_class,
            reason=failure.reason,
            ran=failure.may_have_started,
            elsewhere=failure.reason != "invalid_arguments",  # the arguments come from a mapping of the pipeline
        )

    async def _keep_causes(self, failure: Failure, inputs: Mapping[str, Any], error: str) -> None:
        track: TrackRecord | None = self.ctx.services.get(TrackRecord)
        if failure.reason == "invalid_arguments" and track is not None:
            await keep_causes(self.results, inputs, error, track, self.ctx.turn)


def _surely_failed(spec: ToolSpec, result: ToolResult) -> bool:
    """Return whether a failed call has ended and had no outside effect, because it ran in a box without a network."""
    return spec.origin is Origin.ACQUIRED and "network" not in spec.side_effects and result.audit.end in _ENDED
