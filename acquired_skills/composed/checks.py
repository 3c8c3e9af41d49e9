"""Checks, before a pipeline runs, that its references resolve, its types fit, and its tools exist and may be called.

The name of a step is visible from the next step to the end of its block, and in the blocks nested there. So on any path
through the pipeline, a step refers only to values that exist.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.composed.conditions import condition_references
from acquired_skills.composed.mapping import Mapped, Reference, references
from acquired_skills.composed.pipeline import (
    ARGUMENTS,
    Block,
    BranchStep,
    CallStep,
    ComposedPipeline,
    MapStep,
    conditioned,
    mapped,
    steps_of,
)
from acquired_skills.composed.types import UNKNOWN, Schema, kinds, schema_at, schema_of, why_not_fit
from acquired_skills.model.skill import SkillState
from acquired_skills.model.skill_schemas import why_unusable_input
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.policy.access import DISCOVERY_TOOLS, why_not
from engine.registry.nearest import nearest

RESUME = "resume"  # an argument of every composed skill, which resumes a failed run
LISTED = tuple(state.value for state in SkillState if state.listed)
NO_STEPS = frozenset({"skills", "control", "discovery"})  # categories of tools that cannot be steps


@dataclass(slots=True)
class CheckedPipeline:
    """The result of `check_pipeline`.

    Attributes:
        parameters: JSON Schema of the arguments.
        problems: A sentence for each problem, which says what to change.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check_pipeline(pipeline: ComposedPipeline, tools: Mapping[str, ToolSpec], turn: Turn) -> CheckedPipeline:
    """Find the problems of a pipeline without running it, and derive its parameters.

    Args:
        tools: The existing tools that the pipeline calls.
        turn: The turn of the user who composes the pipeline.
    """
    checked = CheckedPipeline()
    checked.problems += _names(pipeline)
    for step in steps_of(pipeline):
        if isinstance(step, CallStep) and (problem := _callable(step, tools, turn)):
            checked.problems.append(problem)
    parameters = pipeline.parameters if pipeline.parameters is not None else derived_parameters(pipeline, tools)
    if unusable := why_unusable_input(parameters):
        checked.problems.append(f"`parameters` cannot be used: {unusable}.")
        return checked
    properties = parameters.get("properties", {})
    if RESUME in properties:
        checked.problems.append(f"`{RESUME}` is an argument of every composed skill: choose another name for yours.")
    used = {each.path[1] for each in _all_references(pipeline) if each.path[0] == ARGUMENTS and len(each.path) > 1}
    whole = any(each.path == (ARGUMENTS,) for each in _all_references(pipeline))
    if unused := [] if whole else sorted(properties.keys() - used):
        checked.problems.append(f"These arguments are not used: {', '.join(unused)}. Use or remove them.")
    arguments = {"type": "object", **parameters, "additionalProperties": False}
    checked.problems += _Reading(tools).block(pipeline, {ARGUMENTS: arguments})
    checked.parameters = arguments
    return checked


def derived_parameters(pipeline: ComposedPipeline, tools: Mapping[str, ToolSpec]) -> dict[str, Any]:
    """Derive the schema of the arguments that a pipeline refers to.

    Each argument has the schema of the first tool parameter to which it is passed unchanged. It is required unless
    every reference to it has a default.
    """
    properties: dict[str, Any] = {}
    required: set[str] = set()
    for each in _all_references(pipeline):
        if each.path[0] == ARGUMENTS and len(each.path) > 1:
            properties.setdefault(each.path[1], {})
            if each.otherwise is None:
                required.add(each.path[1])
            elif not properties[each.path[1]]:
                properties[each.path[1]] = {"default": each.otherwise.value}
    for step in steps_of(pipeline):
        if not isinstance(step, CallStep):
            continue
        for name, value in step.inputs.items():
            if isinstance(value, Reference) and value.path[0] == ARGUMENTS and len(value.path) == 2:  # noqa: PLR2004
                taken = _properties(tools[step.call].parameters).get(name) if step.call in tools else None
                known = properties[value.path[1]]
                if isinstance(taken, Mapping) and known.keys() <= {"default"} and not _refers(taken):
                    properties[value.path[1]] = {**{k: v for k, v in taken.items() if k != "default"}, **known}
    return {
        "type": "object",
        "properties": {name: properties[name] for name in sorted(properties)},
        "required": sorted(required),
    }


class _Reading:
    """Walks through the blocks of a pipeline and keeps track of the schemas of the visible values."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._tools = tools

    def block(self, block: Block, visible: Mapping[str, Schema], at: str = "") -> Iterator[str]:
        scope = dict(visible)
        for step in block.steps:
            yield from self._step(step, scope, f"{at}{step.name}")
            scope[step.name] = _gives(step)
        yield from self._resolves(mapped(block.output), scope, f"the output of {at.rstrip('.') or 'the pipeline'}")

    def _step(self, step: CallStep | MapStep | BranchStep, scope: dict[str, Schema], at: str) -> Iterator[str]:
        match step:
            case CallStep():
                yield from self._call(step, scope, at)
            case MapStep():
                yield from self._resolves(mapped(step.map), scope, f"`map` of {at}")
                given = schema_of(mapped(step.map), scope)
                if (known := kinds(given)) is not None and "array" not in known:
                    yield f"`map` of {at} has the type {' or '.join(sorted(known))}, but must be a list."
                items = given.get("items")
                item: Schema = items if isinstance(items, Mapping) else UNKNOWN
                yield from self.block(step.each, {**scope, step.item: item}, f"{at}.")
            case BranchStep():
                for each in condition_references(conditioned(step.condition)):
                    yield from self._leads(each, scope, f"`if` of {at}")
                yield from self.block(step.then, scope, f"{at}.then.")
                if step.otherwise is not None:
                    yield from self.block(step.otherwise, scope, f"{at}.else.")

    def _call(self, step: CallStep, scope: Mapping[str, Schema], at: str) -> Iterator[str]:
        for name, value in step.inputs.items():
            yield from self._resolves(mapped(value), scope, f"`{name}` of {at}")
        if step.call not in self._tools:
            return
        parameters = self._tools[step.call].parameters
        properties = _properties(parameters)
        required = parameters.get("required")
        for name in required if isinstance(required, list) else ():
            if name not in step.inputs:
                yield f"{at}: `{step.call}` needs `{name}`: add it to `inputs`."
        for name, value in step.inputs.items():
            target = properties.get(name)
            if isinstance(target, Mapping):
                if reason := why_not_fit(mapped(value), scope, target, parameters):
                    yield f"`{name}` of {at} {reason} by `{step.call}`."
            elif target is None and not parameters.get("additionalProperties"):
                near = nearest(name, properties, 1)
                hint = f" (nearest: {near[0]})" if near else ""
                yield f"{at}: `{step.call}` has no parameter `{name}`{hint}."

    def _resolves(self, value: Mapped, scope: Mapping[str, Schema], where: str) -> Iterator[str]:
        for each in references(value):
            yield from self._leads(each, scope, where)

    @staticmethod
    def _leads(each: Reference, scope: Mapping[str, Schema], where: str) -> Iterator[str]:
        if each.path[0] not in scope:
            yield (
                f"{where} refers to `{each.pointer[:200]}`, but `{each.path[0][:80]}` is not available there. "
                f"Use one of these: {', '.join(scope)}."
            )
        elif schema_at(scope[each.path[0]], each.path[1:]) is None and each.otherwise is None:
            yield f"{where} refers to `{each.pointer[:200]}`, but the schema of `{each.path[0]}` has no such value."


def _gives(step: CallStep | MapStep | BranchStep) -> Schema:
    """Return the schema of a step's output. The schema of a call's output is unknown."""
    return {"type": "array"} if isinstance(step, MapStep) else UNKNOWN


def _names(pipeline: ComposedPipeline) -> Iterator[str]:
    seen = {ARGUMENTS}
    for step in steps_of(pipeline):
        for name in (step.name, *([step.item] if isinstance(step, MapStep) and step.item != "item" else [])):
            if name in seen or name == "item":
                yield f"The name `{name}` is used twice. Give every step and every map item its own name."
            seen.add(name)


def _callable(step: CallStep, tools: Mapping[str, ToolSpec], turn: Turn) -> str:
    spec = tools.get(step.call)
    if spec is None:
        return f"{step.name}: there is no tool or skill called `{step.call[:80]}`."
    if spec.category in NO_STEPS or spec.name in DISCOVERY_TOOLS:
        return f"{step.name}: `{spec.name}` cannot be a step, because it controls the agent or the set of tools."
    if spec.name != step.call:
        return f"{step.name}: write `{spec.name}`, the name of the tool, instead of `{step.call[:80]}`."
    if (state := spec.meta.get("state", LISTED[0])) not in LISTED and spec.origin is not Origin.STATIC:
        return f"{step.name}: `{spec.name}` is {state}: enable or repair it first."
    reason = why_not(spec, turn)
    return f"{step.name}: `{spec.name}` may not be called: {reason}." if reason else ""


def _all_references(block: Block) -> Iterator[Reference]:
    yield from references(mapped(block.output))
    for step in block.steps:
        match step:
            case CallStep():
                for value in step.inputs.values():
                    yield from references(mapped(value))
            case MapStep():
                yield from references(mapped(step.map))
                yield from _all_references(step.each)
            case BranchStep():
                yield from condition_references(conditioned(step.condition))
                yield from _all_references(step.then)
                if step.otherwise is not None:
                    yield from _all_references(step.otherwise)


def _properties(schema: Schema) -> Mapping[str, Any]:
    """Return the properties of a tool's parameters schema, which may come from an untrusted module."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _refers(schema: Any) -> bool:
    """Return whether a schema contains a `$ref`, which would not resolve inside another schema."""
    if isinstance(schema, Mapping):
        return "$ref" in schema or any(map(_refers, schema.values()))
    return isinstance(schema, list) and any(map(_refers, schema))
