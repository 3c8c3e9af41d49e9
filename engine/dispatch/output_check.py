"""Checks a tool's output against its output schema. Takes linear time and never fetches remote schemas."""

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

from engine.dispatch.explain import explain

_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 << 20)  # as for arguments: linear time for every pattern


def misfit(output: Any, schema: Mapping[str, Any]) -> str:
    """Return how the output violates the schema, one line per violation; "" if it conforms.

    output: plain JSON values, as in `ToolResult.output`. The largest possible output takes milliseconds.
    """
    try:
        validator = compiled(schema)
        if validator.is_valid(output):
            return ""
        lines = explain(validator.iter_errors(output), schema, "the output")
    except ValueError as error:
        lines = [f"it cannot be checked: {str(error).splitlines()[0][:200]}"]
    return "\n".join(f"- {line}" for line in lines)


def compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a schema. A ValueError propagates if it is invalid."""
    return jsonschema_rs.validator_for(dict(schema), pattern_options=_LINEAR, retriever=_refuse_to_fetch)


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer outside itself, so {uri[:200]} was not fetched")
