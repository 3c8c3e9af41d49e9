"""Explains schema violations to a model: which field is wrong, what was given, and what is expected."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema_rs import ValidationError

from engine.registry.nearest import nearest

MOST_ERRORS = 5
_GIVEN_CHARACTERS = 200
_EXPECTED_CHARACTERS = 300
_OPTIONS = 20

_LIMITS = {
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number greater than {}",
    "exclusiveMaximum": "a number less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "additionalItems": "at most {} items",
    "multipleOf": "a multiple of {}",
}


def explain(errors: Iterable[ValidationError], schema: Mapping[str, Any], whole: str = "arguments") -> list[str]:
    """Return one line for each of the first `MOST_ERRORS` violations.

    Args:
        errors: The violations.
        schema: The schema.
        whole: What these lines call the validated value as a whole.
    """
    lines: list[str] = []
    for error in errors:
        if len(lines) == MOST_ERRORS:
            lines.append("… and more.")
            break
        lines.append(_line(error, schema, whole))
    return lines


def _line(error: ValidationError, schema: Mapping[str, Any], whole: str) -> str:
    error = _deepest(error)
    path = list(error.instance_path)
    kind = error.kind
    facts = kind.as_dict()
    if kind.name == "required":
        missing = facts["property"]
        return f"`{_dotted([*path, missing])}` is missing: expected {_wanted(_property(schema, path, missing))}."
    if kind.name in {"additionalProperties", "unevaluatedProperties"}:
        known = sorted(_at(schema, path).get("properties", {}))
        return " ".join(_unexpected(name, path, known, error.instance) for name in facts["unexpected"][:MOST_ERRORS])
    where = _dotted(path) or whole
    return f"`{where}`: given {given(error.instance)}, expected {_expected(error)}."


def _deepest(error: ValidationError) -> ValidationError:
    """Return the error in a nested value if exactly one branch of a union has one; otherwise the union's own error."""
    branches = error.kind.as_dict().get("context") or [] if error.kind.name in {"anyOf", "oneOf"} else []
    entered = [branch[0] for branch in branches if branch and len(branch[0].instance_path) > len(error.instance_path)]
    return _deepest(entered[0]) if len(entered) == 1 else error


def _unexpected(name: str, path: list[str | int], known: list[str], instance: Any) -> str:
    value = given(instance[name]) if isinstance(instance, dict) and name in instance else "a value"
    shown = _dotted([*path, _cut(name, _EXPECTED_CHARACTERS)])
    if not known:
        return f"`{shown}`: given {value}, expected no arguments."
    meant = nearest(name, known, 1)[0]
    return (
        f"`{shown}` is not known: given {value}, expected only "
        f"{_cut(', '.join(known), _EXPECTED_CHARACTERS)} (nearest: {meant})."
    )


def _expected(error: ValidationError) -> str:
    name, facts = error.kind.name, error.kind.as_dict()
    match name:
        case "type":
            text = " or ".join(facts["types"])
        case "enum":
            text = f"one of {_options(facts['options'])}"
        case "constant":
            text = given(facts["expected_value"])
        case "pattern":
            text = f"text that matches {facts['pattern']}"
        case "format":
            text = f"text in the format {facts['format']}"
        case "anyOf" | "oneOf" if facts.get("context"):
            text = ", or ".join(dict.fromkeys(_choice(branch[0], error) for branch in facts["context"] if branch))
        case _ if name in _LIMITS and len(facts) == 1:
            text = _LIMITS[name].format(next(iter(facts.values())))
        case _:
            text = error.message
    return _cut(text, _EXPECTED_CHARACTERS)


def _choice(inner: ValidationError, outer: ValidationError) -> str:
    """Describe what one branch of an anyOf expects, with the path if the error is in a nested value."""
    deeper = list(inner.instance_path)[len(outer.instance_path) :]
    return f"`{_dotted(deeper)}` as {_expected(inner)}" if deeper else _expected(inner)


def _wanted(field: Mapping[str, Any]) -> str:
    """Describe a missing field by its schema."""
    if "enum" in field:
        text = f"one of {_options(field['enum'])}"
    elif "const" in field:
        text = given(field["const"])
    else:
        branches = field.get("anyOf") or field.get("oneOf") or [field]
        types = dict.fromkeys(_types(branch) for branch in branches if isinstance(branch, Mapping))
        text = " or ".join(types)
    described = str(field.get("description", ""))
    return _cut(f"{text} ({described})" if described else text, _EXPECTED_CHARACTERS)


def _types(field: Mapping[str, Any]) -> str:
    kind = field.get("type", "a value")
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _property(schema: Mapping[str, Any], path: list[str | int], name: str) -> Mapping[str, Any]:
    found = _at(schema, path).get("properties", {}).get(name, {})
    return _followed(schema, found)


def _at(schema: Mapping[str, Any], path: list[str | int]) -> Mapping[str, Any]:
    """Return the schema of the value at `path`, found through properties and items; empty if it cannot be found."""
    here = _followed(schema, schema)
    for step in path:
        inside = here.get("items", {}) if isinstance(step, int) else here.get("properties", {}).get(step, {})
        here = _followed(schema, inside)
    return here


def _followed(schema: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """Return the node merged with the definition that it refers to. The node's own keys take precedence."""
    if not isinstance(node, Mapping):
        return {}
    reference = node.get("$ref")
    if not (isinstance(reference, str) and reference.startswith("#/$defs/")):
        return node
    definition = schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return {**definition, **node} if isinstance(definition, Mapping) else node


def _options(options: list[Any]) -> str:
    shown = ", ".join(given(each) for each in options[:_OPTIONS])
    return shown if len(options) <= _OPTIONS else f"{shown} and {len(options) - _OPTIONS} more"


def given(value: Any) -> str:
    """Return a value as JSON of limited length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return _cut(text, _GIVEN_CHARACTERS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _dotted(path: list[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
