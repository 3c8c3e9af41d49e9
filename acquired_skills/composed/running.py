"""`PipelineRun`: runs a pipeline step by step.

The caller supplies the function that performs the calls, either through the engine's dispatch or from a case.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acquired_skills.composed.conditions import holds
from acquired_skills.composed.mapping import Constant, Fields, Items, Mapped, UnresolvedReference, larger_than, resolve
from acquired_skills.composed.pipeline import (
    ARGUMENTS,
    Block,
    BranchStep,
    CallStep,
    ComposedPipeline,
    MapStep,
    conditioned,
    mapped,
)
from engine.contract.failure import FailureClass

MOST_CALLS = 500  # maximum number of calls in one run
MOST_BLOCKS = 5_000  # maximum number of blocks in one run, including those without calls
MOST_BYTES = 8 << 20  # maximum size of a map's output in bytes

# Performs a call: takes the place (`titles.3.fetch`), the step and its inputs, and returns the output. Raises
# StepFailed.
Perform = Callable[[str, CallStep, Mapping[str, Any]], Awaitable[Any]]


class StepFailed(Exception):
    """A step failed.

    Attributes:
        place: The place of the step, such as `titles.3.fetch`.
        tool: The tool that the step called; "" if a mapping or a condition failed.
        ran: Whether the call may have run, and so may have had an effect.
        elsewhere: Whether the fault is outside the pipeline, because a policy, a limit or a person refused the call, or
            because the tool of the step failed. A failed call counts against the tool itself.
    """

    def __init__(
        self,
        place: str,
        text: str,
        *,
        tool: str = "",
        failure_class: FailureClass = FailureClass.DIAGNOSTIC,
        reason: str = "step_failed",
        ran: bool = False,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(text)
        self.place = place
        self.tool = tool
        self.failure_class = failure_class
        self.reason = reason
        self.ran = ran
        self.elsewhere = elsewhere


@dataclass(frozen=True, slots=True)
class PipelineMutant:
    """A small change to a pipeline that its cases should detect (`acquired_skills.composed.mutants`).

    `step` is the name of the changed step, or "" if the output is changed. `how` has one of these values:

    - left_out: a call is not made and returns null.
    - blind: the pipeline is unchanged, but calls return nonsense. Here, and with left_out, a reference that does not
      resolve is null instead of a failure, so that only the output counts.
    - negated: the condition of a branch is negated.
    - first_only: a map processes only its first item.
    - swapped: two inputs of a call, or two parts of an output, are exchanged.
    - emptied: an input is null.
    """

    how: str
    step: str
    of: tuple[str, ...] = ()

    def hits(self, how: str, step: str) -> bool:
        return self.how == how and self.step == step


UNCHANGED = PipelineMutant("none", "")


class PipelineRun:
    """One run of a pipeline.

    Steps run in order. A map runs `at_once` items concurrently. After the first failure, it starts no further items and
    waits for the running ones. They are not cancelled, because their effects would then be unknown.
    """

    def __init__(self, perform: Perform, change: PipelineMutant = UNCHANGED) -> None:
        self._perform = perform
        self._change = change
        self._lenient = change.how in ("left_out", "blind")
        self._calls = 0
        self._blocks = 0

    async def run(self, pipeline: ComposedPipeline, arguments: Mapping[str, Any]) -> Any:
        """Run a pipeline and return its output.

        Raises:
            StepFailed: A step failed.
        """
        return await self._block(pipeline, {ARGUMENTS: dict(arguments)}, "")

    async def _block(self, block: Block, visible: Mapping[str, Any], at: str) -> Any:
        self._blocks += 1
        if self._blocks > MOST_BLOCKS:
            text = f"maps and branches run more than {MOST_BLOCKS:,} blocks in one run: use shorter lists"
            raise StepFailed(at.rstrip("."), text)
        scope = dict(visible)
        for step in block.steps:
            scope[step.name] = await self._step(step, scope, f"{at}{step.name}")
        output = mapped(block.output)
        if not at and self._change.hits("swapped", ""):
            output = _swapped(output, self._change.of)
        return self._value(output, scope, at + "output")

    async def _step(self, step: CallStep | MapStep | BranchStep, scope: Mapping[str, Any], place: str) -> Any:
        match step:
            case CallStep():
                return await self._call(step, scope, place)
            case MapStep():
                return await self._map(step, scope, place)
        try:
            chosen = holds(conditioned(step.condition), scope) is not self._change.hits("negated", step.name)
        except UnresolvedReference as error:
            if self._lenient:
                return None
            raise StepFailed(place, f"the condition cannot be evaluated: {error}") from None
        block = step.then if chosen else step.otherwise
        return None if block is None else await self._block(block, scope, f"{place}.{'then' if chosen else 'else'}.")

    async def _call(self, step: CallStep, scope: Mapping[str, Any], place: str) -> Any:
        if self._change.hits("left_out", step.name):
            return None
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise StepFailed(place, f"the run would make more than {MOST_CALLS} calls, which is the limit")
        inputs = {name: self._value(mapped(value), scope, place) for name, value in step.inputs.items()}
        if self._change.hits("swapped", step.name):
            one, other = self._change.of
            inputs[one], inputs[other] = inputs[other], inputs[one]
        elif self._change.hits("emptied", step.name):
            inputs[self._change.of[0]] = None
        return await self._perform(place, step, inputs)

    async def _map(self, step: MapStep, scope: Mapping[str, Any], place: str) -> list[Any]:
        items = self._items(step, scope, place)
        given: list[Any] = [None] * len(items)
        left = iter(enumerate(items))
        failed: list[StepFailed] = []

        async def work() -> None:
            for index, item in left:
                if failed:
                    return
                try:
                    given[index] = await self._block(step.each, {**scope, step.item: item}, f"{place}.{index}.")
                except StepFailed as error:
                    failed.append(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(step.at_once, len(items))):
                group.create_task(work())
        if failed:
            raise failed[0]
        if larger_than(given, MOST_BYTES):
            raise StepFailed(place, f"the output is larger than {MOST_BYTES >> 20} MiB: let each item return less")
        return given

    def _items(self, step: MapStep, scope: Mapping[str, Any], place: str) -> list[Any]:
        items = self._value(mapped(step.map), scope, place)
        if not isinstance(items, list):
            if self._lenient:
                return []
            raise StepFailed(place, "the value of `map` is not a list")
        if len(items) > step.most_items:
            raise StepFailed(place, f"the list has {len(items)} items, but `most_items` is {step.most_items}")
        return items[:1] if self._change.hits("first_only", step.name) else items

    def _value(self, value: Mapped, scope: Mapping[str, Any], place: str) -> Any:
        try:
            return resolve(value, scope)
        except UnresolvedReference as error:
            if self._lenient:
                return None
            raise StepFailed(place, str(error)) from None


def _swapped(output: Mapped, of: tuple[str, ...]) -> Mapped:
    one, other = of
    if isinstance(output, Fields):
        return Fields({**output.fields, one: output.fields[other], other: output.fields[one]})
    if isinstance(output, Items):
        items = list(output.items)
        items[int(one)], items[int(other)] = items[int(other)], items[int(one)]
        return Items(tuple(items))
    return Constant(None)
