"""Proves a pipeline by its cases.

The cases must pass on the pipeline, fail if the steps return nothing, and detect small changes to the pipeline. A proof
has no side effects. A call returns the output that the case states for it. Only skills without network destinations are
really run, each in a fresh box without a workspace.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from acquired_skills.composed.cases import Case
from acquired_skills.composed.conditions import json_equal
from acquired_skills.composed.mutants import LEFT_OUT, describe_mutant, pipeline_mutants
from acquired_skills.composed.pipeline import CallStep, ComposedPipeline, steps_of
from acquired_skills.composed.running import UNCHANGED, PipelineMutant, PipelineRun, StepFailed
from acquired_skills.model.proposal import ProposalProblem
from engine.contract.canonical import digest

BLIND = PipelineMutant("blind", "")
SENTINEL = {"no_step": "gave this"}
MOST_CHANGES = 200
MOST_SHOWN = 10
MOST_TEXT = 400
CHANGES_S = 30.0
PROOF_S = 90.0


class RunsSkill(Protocol):
    """Runs a skill in a box and returns its value in a tuple.

    The result is None for a composed skill, for a skill with network destinations, and for a tool that is not a skill.
    The case must then state the output.
    """

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any] | None: ...


@dataclass(slots=True)
class Proof:
    """The result of proving a pipeline.

    Attributes:
        problems: The reasons against admission.
        tried, killed: The number of mutants that were tried, and the number of those that the cases detected.
        survived: Descriptions of the mutants that no case detected.
    """

    problems: list[ProposalProblem] = field(default_factory=list)
    tried: int = 0
    killed: int = 0
    survived: list[str] = field(default_factory=list)


async def prove(
    pipeline: ComposedPipeline, cases: Sequence[Case], earlier: Sequence[Case], runs: RunsSkill, threshold: float
) -> Proof:
    """Prove a pipeline by its cases.

    Args:
        earlier: Cases of the previous version, which must pass, too.
        threshold: The share of mutants that must be killed. All mutants that omit a step must be killed.
    """
    proof = Proof()
    proof.problems += _unknown_steps(pipeline, cases)
    if proof.problems:
        return proof
    try:
        async with asyncio.timeout(PROOF_S):
            await _red(pipeline, cases, proof)
            await _green(pipeline, cases, earlier, runs, proof)
            if not proof.problems:
                await _changes(pipeline, cases, runs, proof, threshold)
    except TimeoutError:
        proof.problems.append(ProposalProblem("limits", f"The cases take more than {PROOF_S:g} s. Make them smaller."))
    return proof


async def _red(pipeline: ComposedPipeline, cases: Sequence[Case], proof: Proof) -> None:
    for number, case in enumerate(cases, 1):
        if all([not await _wrong(pipeline, case, _Stub(stub), BLIND) for stub in (None, SENTINEL)]):
            proof.problems.append(
                ProposalProblem(
                    "red",
                    f"Case {number} proves nothing: it also passes when every step returns null or "
                    "nonsense. Expect a value that comes from a step, or state a step's inputs in `asked`.",
                )
            )


async def _green(
    pipeline: ComposedPipeline, cases: Sequence[Case], earlier: Sequence[Case], runs: RunsSkill, proof: Proof
) -> None:
    for _ in range(2):  # two runs show whether a skill's value depends on chance
        if proof.problems:
            return
        for number, case in enumerate([*cases, *earlier], 1):
            if wrong := await _wrong(pipeline, case, _Answers(case, runs)):
                own = number <= len(cases)
                whose = f"Case {number}" if own else f"Case {number - len(cases)} of the earlier version"
                hint = "" if own else " Send `breaking=true` if the change of behaviour is intended."
                proof.problems.append(ProposalProblem("green", f"{whose}: {wrong}{hint}"))


async def _changes(
    pipeline: ComposedPipeline, cases: Sequence[Case], runs: RunsSkill, proof: Proof, threshold: float
) -> None:
    known = _Remembered(runs)
    needless: list[str] = []
    survived: list[str] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + CHANGES_S
    for change in list(pipeline_mutants(pipeline))[:MOST_CHANGES]:
        if change.how != LEFT_OUT and loop.time() > end:
            break
        proof.tried += 1
        if await _killed(pipeline, cases, known, change):
            proof.killed += 1
        else:
            (needless if change.how == LEFT_OUT else survived).append(describe_mutant(change))
    proof.survived = [*needless, *survived][:MOST_SHOWN]
    if needless:
        lines = "; ".join(needless[:MOST_SHOWN])
        proof.problems.append(
            ProposalProblem(
                "mutants",
                f"Every step must matter to a case, but no case fails when {lines}. Remove the step, "
                "expect its result, or state its inputs in `asked`.",
            )
        )
    elif proof.killed < threshold * proof.tried:  # at this point, every step is known to matter
        lines = "\n".join(f"- {each}" for each in survived[:MOST_SHOWN])
        proof.problems.append(
            ProposalProblem(
                "mutants",
                f"The cases detect {proof.killed} of {proof.tried} small changes to the pipeline, but "
                f"{threshold:.0%} is required. No case fails when\n{lines}\nAdd cases that show the difference.",
            )
        )


async def _killed(pipeline: ComposedPipeline, cases: Sequence[Case], runs: RunsSkill, change: PipelineMutant) -> bool:
    for case in cases:
        if await _wrong(pipeline, case, _Answers(case, runs), change):
            return True
    return False


class _Perform(Protocol):
    """Supplies the outputs of the calls of a run, and records their inputs."""

    asked: dict[str, list[Mapping[str, Any]]]

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any: ...


class _Stub:
    """Supplies the same output for every call, and records nothing."""

    def __init__(self, output: Any) -> None:
        self.asked: dict[str, list[Mapping[str, Any]]] = {}
        self._output = output

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any:  # noqa: ARG002
        return self._output


class _Answers:
    """Supplies the output stated in the case or, if there is none, the value that the skill returns."""

    def __init__(self, case: Case, runs: RunsSkill) -> None:
        self.asked: dict[str, list[Mapping[str, Any]]] = {}
        self._case = case
        self._runs = runs

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any:
        for name in {place, step.name}:
            self.asked.setdefault(name, []).append(inputs)
        for name in (place, step.name):
            if name in self._case.steps:
                return self._case.steps[name]
        found = await self._runs(step.call, inputs)
        if found is None:
            text = f"`{step.call}` is not run in a proof: state its output in `steps` of the case, by step name"
            raise StepFailed(place, text, tool=step.call)
        return found[0]


class _Remembered:
    """Caches the values of skills, so that mutants do not repeat the same calls."""

    def __init__(self, runs: RunsSkill) -> None:
        self._runs = runs
        self._known: dict[str, tuple[Any] | StepFailed | None] = {}

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any] | None:
        key = digest([name, arguments])
        if key not in self._known:
            try:
                self._known[key] = await self._runs(name, arguments)
            except StepFailed as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, StepFailed):
            raise found
        return found


async def _wrong(pipeline: ComposedPipeline, case: Case, perform: _Perform, change: PipelineMutant = UNCHANGED) -> str:
    """Run a case. Return how the result differs from the expected one, or "" if they agree."""
    try:
        output = await PipelineRun(perform, change).run(pipeline, case.arguments)
    except StepFailed as error:
        return f"step `{error.place}` fails: {str(error)[:MOST_TEXT]}."
    if case.expects and not json_equal(output, case.expect):
        return f"it returns {str(output)[:MOST_TEXT]!r}, but {str(case.expect)[:MOST_TEXT]!r} is expected."
    for name, inputs in case.asked.items():
        made = perform.asked.get(name, [])
        if not any(json_equal(inputs, each) for each in made):
            what = str(made[0])[:MOST_TEXT] if made else "nothing"
            return f"`{name}` is called with {what}, but {str(inputs)[:MOST_TEXT]} is expected."
    return ""


def _unknown_steps(pipeline: ComposedPipeline, cases: Sequence[Case]) -> list[ProposalProblem]:
    names = {step.name for step in steps_of(pipeline) if isinstance(step, CallStep)}
    unknown = sorted({key for case in cases for key in (*case.steps, *case.asked) if key.split(".")[-1] not in names})
    if not unknown:
        return []
    return [ProposalProblem("cases", f"No call step is named {', '.join(unknown[:5])}. Use one of {sorted(names)}.")]
