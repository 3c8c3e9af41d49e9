"""Checks the input schema of a skill. It comes from a box or a file, so it is untrusted."""

import json
from collections.abc import Mapping
from typing import Any

from engine.formats.bounded_schema import schema_problem


def why_unusable(parameters: Mapping[str, Any]) -> str:
    """Return why arguments cannot be validated against this schema; "" when they can."""
    if problem := schema_problem(parameters):  # first: it bounds depth and size
        return problem
    try:
        json.dumps(parameters, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return "it has a number or a string that JSON cannot represent"
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if parameters.get("type") != "object" or not isinstance(properties, Mapping):
        return "it is not the schema of an object with properties"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "`required` is not a list of names"
    for name, schema in properties.items():
        if not isinstance(schema, Mapping) or not isinstance(schema.get("description", ""), str):
            return f"the schema of `{name[:80]}` is not an object with a string as its description"
    return ""
