"""The proof of a pipeline by its cases: they fail when no step gives anything, pass as it is, and notice small changes.

Nothing of the world is touched: a call gives what its case says, and only a skill whose code reaches nothing is run, in
a fresh box without a workspace.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from acquired_skills.composed.cases import Case
from acquired_skills.composed.conditions import same
from acquired_skills.composed.mutants import LEFT_OUT, changes_of, in_words
from acquired_skills.composed.pipeline import CallStep, Pipeline, steps_of
from acquired_skills.composed.running import NO_CHANGE, Change, Run, StepFailed
from acquired_skills.model.proposal import Problem
from engine.contract.canonical import digest

BLIND = Change("blind", "")
SENTINEL = {"no_step": "gave this"}
MOST_CHANGES = 200
MOST_SHOWN = 10
MOST_TEXT = 400
CHANGES_S = 30.0
PROOF_S = 90.0


class RunsSkill(Protocol):
    """Runs a skill in a box. None: it is no skill that reaches nothing, so its output has to be given."""

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any] | None: ...


@dataclass(slots=True)
class Proof:
    """problems: what speaks against admission. noticed: changes that the cases notice, of `tried`."""

    problems: list[Problem] = field(default_factory=list)
    tried: int = 0
    noticed: int = 0
    survived: list[str] = field(default_factory=list)


async def prove(
    pipeline: Pipeline, cases: Sequence[Case], earlier: Sequence[Case], runs: RunsSkill, threshold: float
) -> Proof:
    """earlier: cases of the version before, which must pass, too. threshold: share of the changes to be noticed; that a
    step is left out must be noticed always."""
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
        proof.problems.append(Problem("limits", f"The cases take more than {PROOF_S:g} s: make them smaller."))
    return proof


async def _red(pipeline: Pipeline, cases: Sequence[Case], proof: Proof) -> None:
    for number, case in enumerate(cases, 1):
        if all([not await _wrong(pipeline, case, _Stub(stub), BLIND) for stub in (None, SENTINEL)]):
            proof.problems.append(
                Problem(
                    "red",
                    f"Case {number} proves nothing: it passes as well when every step gives null, or "
                    "nonsense. Expect what comes from a step, or say in `asked` what a step must be asked.",
                )
            )


async def _green(
    pipeline: Pipeline, cases: Sequence[Case], earlier: Sequence[Case], runs: RunsSkill, proof: Proof
) -> None:
    for _ in range(2):  # twice: what a skill gives must not depend on chance
        if proof.problems:
            return
        for number, case in enumerate([*cases, *earlier], 1):
            if wrong := await _wrong(pipeline, case, _Answers(case, runs)):
                own = number <= len(cases)
                whose = f"Case {number}" if own else f"Case {number - len(cases)} of the version before"
                hint = "" if own else " Say `breaking=true` if the change of behaviour is meant."
                proof.problems.append(Problem("green", f"{whose}: {wrong}{hint}"))


async def _changes(pipeline: Pipeline, cases: Sequence[Case], runs: RunsSkill, proof: Proof, threshold: float) -> None:
    known = _Remembered(runs)
    needless: list[str] = []
    survived: list[str] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + CHANGES_S
    for change in list(changes_of(pipeline))[:MOST_CHANGES]:
        if change.how != LEFT_OUT and loop.time() > end:
            break
        proof.tried += 1
        if await _noticed(pipeline, cases, known, change):
            proof.noticed += 1
        else:
            (needless if change.how == LEFT_OUT else survived).append(in_words(change))
    proof.survived = [*needless, *survived][:MOST_SHOWN]
    if needless:
        told = "; ".join(needless[:MOST_SHOWN])
        proof.problems.append(
            Problem(
                "mutants",
                f"Every step must matter to a case, but no case fails when {told}. Remove the step, or "
                "expect what comes of it, or say in `asked` what it must be asked.",
            )
        )
    elif proof.noticed < threshold * proof.tried:  # every step matters by now
        told = "\n".join(f"- {each}" for each in survived[:MOST_SHOWN])
        proof.problems.append(
            Problem(
                "mutants",
                f"The cases notice {proof.noticed} of {proof.tried} small changes of the pipeline, and "
                f"{threshold:.0%} is asked for. No case fails when\n{told}\nAdd what tells these apart.",
            )
        )


async def _noticed(pipeline: Pipeline, cases: Sequence[Case], runs: RunsSkill, change: Change) -> bool:
    for case in cases:
        if await _wrong(pipeline, case, _Answers(case, runs), change):
            return True
    return False


class _Perform(Protocol):
    """What a run is given for calls, and what it was asked."""

    asked: dict[str, list[Mapping[str, Any]]]

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any: ...


class _Stub:
    """Every call gives this, and none was asked for anything."""

    def __init__(self, output: Any) -> None:
        self.asked: dict[str, list[Mapping[str, Any]]] = {}
        self._output = output

    async def __call__(self, place: str, step: CallStep, inputs: Mapping[str, Any], /) -> Any:  # noqa: ARG002
        return self._output


class _Answers:
    """What a case says; else what a skill gives."""

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
            text = f"`{step.call}` is not run to prove a pipeline: give its output in the case's `steps`, by its name"
            raise StepFailed(place, text, tool=step.call)
        return found[0]


class _Remembered:
    """So that a skill is not asked the same again for every change."""

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


async def _wrong(pipeline: Pipeline, case: Case, perform: _Perform, change: Change = NO_CHANGE) -> str:
    """What does not come out as the case says; "" when all of it does."""
    try:
        output = await Run(perform, change).run(pipeline, case.arguments)
    except StepFailed as error:
        return f"step `{error.place}` fails: {str(error)[:MOST_TEXT]}."
    if case.expects and not same(output, case.expect):
        return f"it gives {str(output)[:MOST_TEXT]!r}, where {str(case.expect)[:MOST_TEXT]!r} is expected."
    for name, inputs in case.asked.items():
        made = perform.asked.get(name, [])
        if not any(same(inputs, each) for each in made):
            what = str(made[0])[:MOST_TEXT] if made else "nothing"
            return f"`{name}` is asked {what}, where {str(inputs)[:MOST_TEXT]} is expected."
    return ""


def _unknown_steps(pipeline: Pipeline, cases: Sequence[Case]) -> list[Problem]:
    names = {step.name for step in steps_of(pipeline) if isinstance(step, CallStep)}
    unknown = sorted({key for case in cases for key in (*case.steps, *case.asked) if key.split(".")[-1] not in names})
    if not unknown:
        return []
    return [Problem("cases", f"No step with a call is called {', '.join(unknown[:5])}; there are {sorted(names)}.")]
