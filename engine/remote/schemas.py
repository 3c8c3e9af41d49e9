"""Whether the parameter schema of a foreign tool can be used: bounded, and compiled as the pipeline compiles it."""

import json
from typing import Any

import jsonschema_rs

MOST_BYTES = 64 * 1024
MOST_DEPTH = 64
# As `engine.dispatch.validate` has them: linear-time patterns, and nothing is ever fetched.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=10 << 20)


class SchemaError(ValueError):
    """Why a schema cannot be used, one line."""


def usable_schema(schema: Any) -> dict[str, Any]:
    """The schema as one of an arguments object. Raises SchemaError."""
    if not isinstance(schema, dict):
        raise SchemaError(f"its parameters are {type(schema).__name__}, not a JSON Schema object")
    if too_deep(schema, MOST_DEPTH):
        raise SchemaError(f"its parameter schema is nested deeper than {MOST_DEPTH} levels")
    if len(json.dumps(schema)) > MOST_BYTES:
        raise SchemaError(f"its parameter schema is larger than {MOST_BYTES >> 10} KiB")
    whole = {"type": "object", **schema}
    if whole["type"] != "object":
        raise SchemaError(f"its parameters are of type {str(whole['type'])[:40]!r}, not object")
    try:
        jsonschema_rs.validator_for(whole, pattern_options=_PATTERNS, retriever=_refuse_to_fetch)
    except ValueError as error:
        raise SchemaError(f"its parameter schema cannot be used: {str(error).splitlines()[0][:200]}") from error
    return whole


def too_deep(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than this. Recurses no deeper itself."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(too_deep(each, levels - 1) for each in inner)


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"a schema may not refer outside itself, so {uri[:200]} was not fetched")
