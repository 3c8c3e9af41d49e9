"""Checks that the parameter schema of a remote tool compiles, and that validation against it takes limited time."""

from typing import Any

import jsonschema_rs

from engine.formats.bounded_schema import schema_problem

# As in `engine.dispatch.validate`: linear-time patterns, and no remote references.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=10 << 20)


class SchemaError(ValueError):
    """A schema is unusable. The message is one line."""


def usable_schema(schema: Any) -> dict[str, Any]:
    """Return the schema, with the type ``object`` if it specifies none.

    Raises:
        SchemaError: The schema is unusable.
    """
    if not isinstance(schema, dict):
        raise SchemaError(f"its parameters are {type(schema).__name__}, not a JSON Schema object")
    whole = {"type": "object", **schema}
    if whole["type"] != "object":
        raise SchemaError(f"its parameters are of type {str(whole['type'])[:40]!r}, not object")
    if problem := schema_problem(whole):
        raise SchemaError(f"its parameter schema cannot be used: {problem}")
    try:
        jsonschema_rs.validator_for(whole, pattern_options=_PATTERNS, retriever=_refuse_to_fetch)
    except ValueError as error:
        raise SchemaError(f"its parameter schema cannot be used: {str(error).splitlines()[0][:200]}") from error
    return whole


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"a schema may not refer outside itself, so {uri[:200]} was not fetched")
