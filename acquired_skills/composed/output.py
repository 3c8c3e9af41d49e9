"""Derives the output schema of a pipeline from the output schemas of the tools that it calls."""

from collections.abc import Mapping
from typing import Any

from acquired_skills.composed.mapping import Fields, Mapped
from acquired_skills.composed.pipeline import ARGUMENTS, Block, BranchStep, CallStep, ComposedPipeline, MapStep, mapped
from acquired_skills.composed.types import UNKNOWN, Schema, schema_of
from engine.contract.spec import ToolSpec

_DEFINITIONS = "#/$defs/"
_MOST_NODES = 2_000  # maximum number of nodes of a tool's schema after references are replaced by their definitions


def derived_output(pipeline: ComposedPipeline, arguments: Schema, tools: Mapping[str, ToolSpec]) -> Schema | None:
    """Return the JSON Schema of a pipeline's output, or None if nothing is known about it.

    Args:
        arguments: The schema of the pipeline's arguments.
    """
    return _output(pipeline, {ARGUMENTS: arguments}, tools) or None


def _output(block: Block, visible: Mapping[str, Schema], tools: Mapping[str, ToolSpec]) -> Schema:
    scope = dict(visible)
    for step in block.steps:
        scope[step.name] = _output_step(step, scope, tools)
    return _closed(mapped(block.output), scope)


def _output_step(
    step: CallStep | MapStep | BranchStep, scope: Mapping[str, Schema], tools: Mapping[str, ToolSpec]
) -> Schema:
    match step:
        case CallStep():
            spec = tools.get(step.call)
            return UNKNOWN if spec is None or spec.returns is None else _without_references(spec.returns)
        case MapStep():
            given = schema_of(mapped(step.map), scope)
            items = given.get("items") if "prefixItems" not in given else None
            item: Schema = items if isinstance(items, Mapping) else UNKNOWN
            return {"type": "array", "items": _output(step.each, {**scope, step.item: item}, tools)}
        case BranchStep():
            otherwise: Schema = {"type": "null"}
            if step.otherwise is not None:
                otherwise = _output(step.otherwise, scope, tools)
            then = _output(step.then, scope, tools)
            return {"anyOf": [then, otherwise]} if then and otherwise else UNKNOWN


def _closed(output: Mapped, scope: Mapping[str, Schema]) -> Schema:
    """Return the schema of a mapping's value. Every field is required, because an unresolved reference ends the run."""
    if not isinstance(output, Fields):
        return schema_of(output, scope)
    inner = {key: _closed(each, scope) for key, each in output.fields.items()}
    return {"type": "object", "properties": inner, "required": list(inner), "additionalProperties": False}


class _TooLarge(Exception):
    """A reference cannot be replaced, for example because it is recursive, or the schema would become too large."""


def _without_references(schema: Schema) -> Schema:
    """Return the schema with references replaced by their definitions, so that its parts are valid on their own."""
    definitions = schema.get("$defs")
    room = _MOST_NODES

    def put_in(node: Any, within: tuple[str, ...]) -> Any:
        nonlocal room
        room -= 1
        if room < 0:
            raise _TooLarge
        if isinstance(node, list):
            return [put_in(each, within) for each in node]
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            name = str(node["$ref"]).removeprefix(_DEFINITIONS)
            target = definitions.get(name) if isinstance(definitions, Mapping) else None
            if name in within or len(node) > 1 or not isinstance(target, Mapping):
                raise _TooLarge
            return put_in(target, (*within, name))
        return {key: put_in(each, within) for key, each in node.items()}

    try:
        found: Schema = put_in({key: each for key, each in schema.items() if key != "$defs"}, ())
    except _TooLarge:
        return UNKNOWN
    return found
