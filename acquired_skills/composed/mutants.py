"""Makes mutants of a pipeline, which are small changes that its cases should detect."""

from collections.abc import Iterator
from itertools import pairwise

from acquired_skills.composed.mapping import Constant, Fields, Items, Mapped
from acquired_skills.composed.pipeline import BranchStep, CallStep, ComposedPipeline, MapStep, mapped, steps_of
from acquired_skills.composed.running import PipelineMutant

LEFT_OUT = "left_out"


def pipeline_mutants(pipeline: ComposedPipeline) -> Iterator[PipelineMutant]:
    """Yield all mutants of a pipeline, beginning with those that omit a step."""
    steps = list(steps_of(pipeline))
    for step in steps:
        if isinstance(step, CallStep):
            yield PipelineMutant(LEFT_OUT, step.name)
    for step in steps:
        match step:
            case BranchStep():
                yield PipelineMutant("negated", step.name)
            case MapStep():
                yield PipelineMutant("first_only", step.name)
            case CallStep():
                yield from _of_inputs(step)
    yield from _of_output(mapped(pipeline.output))


def _of_output(output: Mapped) -> Iterator[PipelineMutant]:
    if isinstance(output, Fields):
        parts = list(output.fields)
        yield from (
            PipelineMutant("swapped", "", (one, other))
            for one, other in pairwise(parts)
            if output.fields[one] != output.fields[other]
        )
    elif isinstance(output, Items):
        for index, (one, other) in enumerate(pairwise(output.items)):
            if one != other:
                yield PipelineMutant("swapped", "", (str(index), str(index + 1)))


def describe_mutant(change: PipelineMutant) -> str:
    """Return a description of a mutant for the author of the cases."""
    whose = f"`{change.step}`" if change.step else "the pipeline's output"
    of = " and ".join(f"`{each}`" for each in change.of)
    return {
        LEFT_OUT: f"{whose} is left out",
        "negated": f"the condition of {whose} is negated",
        "first_only": f"{whose} only takes the first item",
        "swapped": f"{of} of {whose} are swapped",
        "emptied": f"{of} of {whose} is null",
    }[change.how]


def _of_inputs(step: CallStep) -> Iterator[PipelineMutant]:
    values = {name: mapped(value) for name, value in step.inputs.items()}
    for one, other in pairwise(values):
        if values[one] != values[other]:
            yield PipelineMutant("swapped", step.name, (one, other))
    for name, value in values.items():
        if not isinstance(value, Constant):
            yield PipelineMutant("emptied", step.name, (name,))
