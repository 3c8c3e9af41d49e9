"""Checks a tool's output against the tool's own output schema. Cannot be made to hang or to fetch."""

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

from engine.dispatch.explain import explain

_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 << 20)  # as for arguments: linear time for every pattern


def misfit(output: Any, schema: Mapping[str, Any]) -> str:
    """What in the output does not fit the schema, one line each; "" where all of it fits.

    output: plain JSON values, as `ToolResult.output` has them. Takes milliseconds for the largest output there is.
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
    """Raises ValueError where the schema cannot be used."""
    return jsonschema_rs.validator_for(dict(schema), pattern_options=_LINEAR, retriever=_refuse_to_fetch)


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer outside itself, so {uri[:200]} was not fetched")
