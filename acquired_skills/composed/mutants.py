"""Small changes of a pipeline, such as people get wrong, by which its cases are tried."""

from collections.abc import Iterator
from itertools import pairwise

from acquired_skills.composed.mapping import Constant, Fields, Items, Mapped
from acquired_skills.composed.pipeline import BranchStep, CallStep, MapStep, Pipeline, mapped, steps_of
from acquired_skills.composed.running import Change

LEFT_OUT = "left_out"


def changes_of(pipeline: Pipeline) -> Iterator[Change]:
    """All of them, those that leave a step out first."""
    steps = list(steps_of(pipeline))
    for step in steps:
        if isinstance(step, CallStep):
            yield Change(LEFT_OUT, step.name)
    for step in steps:
        match step:
            case BranchStep():
                yield Change("negated", step.name)
            case MapStep():
                yield Change("first_only", step.name)
            case CallStep():
                yield from _of_inputs(step)
    yield from _of_output(mapped(pipeline.output))


def _of_output(output: Mapped) -> Iterator[Change]:
    if isinstance(output, Fields):
        parts = list(output.fields)
        yield from (
            Change("swapped", "", (one, other))
            for one, other in pairwise(parts)
            if output.fields[one] != output.fields[other]
        )
    elif isinstance(output, Items):
        for index, (one, other) in enumerate(pairwise(output.items)):
            if one != other:
                yield Change("swapped", "", (str(index), str(index + 1)))


def in_words(change: Change) -> str:
    """What was done, for whoever wrote the cases."""
    whose = f"`{change.step}`" if change.step else "the pipeline's output"
    of = " and ".join(f"`{each}`" for each in change.of)
    return {
        LEFT_OUT: f"{whose} is left out",
        "negated": f"the condition of {whose} is turned around",
        "first_only": f"{whose} takes the first item alone",
        "swapped": f"{of} of {whose} are swapped",
        "emptied": f"{of} of {whose} is null",
    }[change.how]


def _of_inputs(step: CallStep) -> Iterator[Change]:
    values = {name: mapped(value) for name, value in step.inputs.items()}
    for one, other in pairwise(values):
        if values[one] != values[other]:
            yield Change("swapped", step.name, (one, other))
    for name, value in values.items():
        if not isinstance(value, Constant):
            yield Change("emptied", step.name, (name,))
