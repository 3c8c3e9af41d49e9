"""Validates the input and output schemas of a skill, and checks results against the output schema.

Schemas come from a box or a file, and an annotation may be wrong, so no schema is trusted.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.contract.failure import FailureClass, ToolFailure
from engine.dispatch.render import TOO_LARGE, render
from engine.dispatch.validate import compiled, misfit
from engine.formats.bounded_schema import schema_problem


def why_unusable_input(parameters: Mapping[str, Any]) -> str:
    """Return why arguments cannot be validated against this schema, or "" if they can."""
    if problem := _why_invalid(parameters):
        return problem
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if parameters.get("type") != "object" or not isinstance(properties, Mapping):
        return "it is not the schema of an object with properties"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "`required` is not a list of names"
    for name, schema in properties.items():
        if not isinstance(schema, Mapping) or not isinstance(schema.get("description", ""), str):
            return f"the schema of `{name[:80]}` is not an object with a string as its description"
    return ""


def why_unusable_output(schema: Mapping[str, Any]) -> str:
    """Return why results cannot be validated against this schema, or "" if they can. The text has no final period."""
    if problem := _why_invalid(schema):
        return problem
    if not _refers_to_definitions(schema):
        return "a $ref in it does not point to one of its $defs"  # wrapping the schema would change its target
    try:
        compiled(schema)
    except ValueError as error:
        return f"it cannot be compiled ({str(error).splitlines()[0][:200]})"
    return ""


def usable_output_schema(
    schema: Mapping[str, Any] | None, calls: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return an output schema if it is usable and every result of the calls fits it; otherwise None.

    Args:
        calls: Recorded calls (`acquired_skills.proof.facts.RecordedCall`).
    """
    if schema is None or why_unusable_output(schema):
        return None
    if any("value" in call and misfit(call["value"], schema) for call in calls):
        return None
    return schema


def why_misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """Return how a value from a box differs from the schema, with one line for each error; "" if it fits.

    A value that is too large to be passed on is not checked. This function blocks.
    """
    output, text, _ = render(value)
    return "" if output is None and text == TOO_LARGE else misfit(output, schema)


def misfit_failure(name: str, wrong: str, remark: str = "") -> ToolFailure:
    """Return the failure of a call whose result does not fit the schema.

    Args:
        wrong: The text that `why_misfit` returned.
        remark: A sentence to add to the message.
    """
    text = (
        f"The skill `{name}` ran, but its result does not fit its return annotation:\n{wrong}\nPropose a new version "
        "with create_skill in which the result and the annotation agree."
    )
    return ToolFailure(
        f"{text}\n{remark}".strip(), failure_class=FailureClass.DIAGNOSTIC, reason="output_misfit", end="ok"
    )


def _why_invalid(schema: Mapping[str, Any]) -> str:
    if problem := schema_problem(schema):  # this must come first, because it bounds depth and size
        return problem
    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return "it contains a number or a string that JSON cannot represent"
    return ""


def _refers_to_definitions(node: Any) -> bool:
    if isinstance(node, list):
        return all(map(_refers_to_definitions, node))
    if not isinstance(node, Mapping):
        return True
    reference = node.get("$ref", "#/$defs/")
    if isinstance(reference, str) and not reference.startswith("#/$defs/"):
        return False
    return all(map(_refers_to_definitions, node.values()))
