"""Infers the types of a pipeline's values from JSON Schemas.

An unknown schema is `{}`. A mismatch is reported only if no value could ever fit.
"""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from acquired_skills.composed.mapping import Constant, Fields, Items, Mapped, Reference, Text

Schema = Mapping[str, Any]
UNKNOWN: Schema = {}
_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 << 20)
_PYTHON: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    ((list, tuple), "array"),
    (Mapping, "object"),
    (type(None), "null"),
)


def schema_at(schema: Schema, path: tuple[str, ...]) -> Schema | None:
    """Return the schema at a path in another schema; None if the path cannot exist."""
    for part in path:
        known = kinds(schema)
        if known is not None and not known & {"object", "array"}:
            return None
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and isinstance(properties.get(part), Mapping):
            schema = properties[part]
        elif known == frozenset({"object"}) and rest is False:
            return None
        elif known == frozenset({"array"}):
            if not part.isdecimal():
                return None
            items = schema.get("items") if "prefixItems" not in schema else None
            schema = items if isinstance(items, Mapping) else UNKNOWN
        else:
            return UNKNOWN
    return schema


def kinds(schema: Schema) -> frozenset[str] | None:
    """Return the JSON types that a schema allows; None if they are unknown."""
    if "const" in schema:
        return frozenset({kind_of(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(kind_of, schema["enum"]))
    if isinstance(kind := schema.get("type"), str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(map(str, kind))
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if isinstance(choices, list):
            found = [kinds(each) if isinstance(each, Mapping) else None for each in choices]
            known = [each for each in found if each is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
    return None


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    return next((name for python, name in _PYTHON if isinstance(value, python)), "object")


def schema_of(mapped: Mapped, scope: Mapping[str, Schema]) -> Schema:
    """Return the schema of a mapping's value, as far as it is known."""
    match mapped:
        case Constant(value):
            return {"const": value}
        case Reference(path, otherwise):
            found = schema_at(scope.get(path[0], UNKNOWN), path[1:]) or UNKNOWN
            return {"anyOf": [found, {"const": otherwise.value}]} if otherwise else found
        case Text():
            return {"type": "string"}
        case Items():
            return {"type": "array"}
        case Fields(fields):
            inner = {key: schema_of(each, scope) for key, each in fields.items()}
            return {"type": "object", "properties": inner, "additionalProperties": False}


def why_not_fit(mapped: Mapped, scope: Mapping[str, Schema], target: Schema, whole: Schema) -> str:
    """Return why a mapping's value can never fit a parameter, or "" if it can.

    Args:
        target: The schema of the parameter.
        whole: The schema that contains `target`.
    """
    if isinstance(mapped, Constant):
        return _invalid(mapped.value, target, whole)
    given, taken = kinds(schema_of(mapped, scope)), kinds(target)
    if given is None or taken is None:
        return ""
    if "number" in taken:
        taken |= {"integer"}
    if "number" in given:  # a number may be an integer
        given |= {"integer"}
    return (
        ""
        if given & taken
        else f"has the type {' or '.join(sorted(given))}, but {' or '.join(sorted(taken))} is expected"
    )


def _invalid(value: Any, target: Schema, whole: Schema) -> str:
    definitions = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
    try:
        validator = jsonschema_rs.validator_for({**target, **definitions}, pattern_options=_LINEAR, retriever=_no_fetch)
        error = next(iter(validator.iter_errors(value)), None)
    except ValueError:  # the tool's own schema is invalid, and every call of the tool reports that
        return ""
    return "" if error is None else f"is {str(error.message)[:200]}"


def _no_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched: references to other documents are not supported")
