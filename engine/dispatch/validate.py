"""Validates arguments and outputs of tools against JSON Schemas, in linear time and without fetching remote schemas."""

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

from engine.contract.failure import FailureClass, refusal
from engine.contract.spec import ToolSpec
from engine.dispatch.explain import explain

# The most compiled schemas that are kept, a few kilobytes each. With more tools, some are compiled again.
DEFAULT_CAPACITY = 4096

# Rust's `regex` takes linear time for every pattern, and has no look-around or back-references.
_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 << 20)


class Validators:
    """Validates arguments, with a cache of compiled schemas. When the cache is full, the oldest schema is evicted."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._compiled: dict[int, tuple[ToolSpec, jsonschema_rs.Validator]] = {}

    def check(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> None:
        """Validate the arguments.

        Raises:
            ToolFailure: The arguments are invalid (DIAGNOSTIC, one line per field), or the schema itself is invalid
                (FATAL). The tool was not started.
        """
        entry = self._compiled.get(id(spec))
        validator = entry[1] if entry is not None else self._compile(spec)
        if not isinstance(arguments, Mapping):
            _refuse(spec, [f"arguments: given {type(arguments).__name__}, expected an object of named arguments."])
        instance = arguments if type(arguments) is dict else dict(arguments)
        try:
            if validator.is_valid(instance):
                return
            lines = explain(validator.iter_errors(instance), spec.parameters)
        # This is raised for a value without a JSON form: an object, a key that is not a string, a lone surrogate.
        except ValueError as error:
            lines = [f"arguments: given a value that JSON cannot represent ({error}), expected plain JSON values."]
        _refuse(spec, lines)

    def _compile(self, spec: ToolSpec) -> jsonschema_rs.Validator:
        try:
            validator = compiled(spec.parameters)
        except ValueError as error:
            first_line = str(error).split("\n", 1)[0].rstrip(".")
            raise refusal(
                f"{spec.name}: its parameter schema is invalid: {first_line}. "
                "The provider of this tool must correct it.",
                "invalid_schema",
                FailureClass.FATAL,
            ) from error
        if len(self._compiled) >= self._capacity:
            del self._compiled[next(iter(self._compiled))]
        # The spec is stored with its validator, so that its id() cannot be reused for another object.
        self._compiled[id(spec)] = (spec, validator)
        return validator


def misfit(output: Any, schema: Mapping[str, Any]) -> str:
    """Return how the output violates the schema, one line per violation; "" if it conforms.

    Args:
        output: Plain JSON values, as in `ToolResult.output`. Checking the largest possible output takes milliseconds.
    """
    try:
        validator = compiled(schema)
        if validator.is_valid(output):
            return ""
        lines = explain(validator.iter_errors(output), schema, "the output")
    except ValueError as error:
        lines = [f"the output cannot be checked: {str(error).splitlines()[0][:200]}"]
    return "\n".join(f"- {line}" for line in lines)


def compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a schema.

    Raises:
        ValueError: The schema is invalid.
    """
    return jsonschema_rs.validator_for(dict(schema), pattern_options=_LINEAR, retriever=_refuse_to_fetch)


def _refuse(spec: ToolSpec, lines: list[str]) -> NoReturn:
    raise refusal(
        f"{spec.name}: invalid arguments, nothing was run.\n" + "\n".join(f"- {line}" for line in lines),
        "invalid_arguments",
    )


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer outside itself, so {uri[:200]} was not fetched")
