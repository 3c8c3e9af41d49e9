"""Arguments against a tool's JSON Schema, before anything runs. Cannot be made to hang or to fetch."""

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

from engine.contract.failure import FailureClass, refusal
from engine.contract.spec import ToolSpec
from engine.dispatch.explain import explain

# Compiled schemas kept. One is a few kilobytes; an agent with more tools than this compiles some again.
DEFAULT_CAPACITY = 4096

# Rust's `regex`: linear time in the input for every pattern, and no look-around or back-references.
_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 << 20)


class Validators:
    """Compiled schemas, each made once per spec object; the oldest is forgotten past the capacity."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._compiled: dict[int, tuple[ToolSpec, jsonschema_rs.Validator]] = {}

    def check(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> None:
        """Return when the arguments are valid. Raises ToolFailure, never started, otherwise: DIAGNOSTIC with a
        line per field, or FATAL when the schema itself cannot be used."""
        entry = self._compiled.get(id(spec))
        validator = entry[1] if entry is not None else self._compile(spec)
        if not isinstance(arguments, Mapping):
            _refuse(spec, [f"arguments: given {type(arguments).__name__}, expected an object of named arguments."])
        instance = arguments if type(arguments) is dict else dict(arguments)
        try:
            if validator.is_valid(instance):
                return
            lines = explain(validator.iter_errors(instance), spec.parameters)
        except ValueError as error:  # a value JSON has no form for: an object, a key that is no text, half a character
            lines = [f"arguments: given a value that JSON cannot carry ({error}), expected plain JSON values."]
        _refuse(spec, lines)

    def _compile(self, spec: ToolSpec) -> jsonschema_rs.Validator:
        try:
            validator = jsonschema_rs.validator_for(
                dict(spec.parameters), pattern_options=_LINEAR, retriever=_refuse_to_fetch
            )
        except ValueError as error:
            first_line = str(error).split("\n", 1)[0].rstrip(".")
            raise refusal(
                f"{spec.name}: its own parameter schema cannot be used: {first_line}. "
                "Whoever provides this tool has to correct it.",
                "invalid_schema",
                FailureClass.FATAL,
            ) from error
        if len(self._compiled) >= self._capacity:
            del self._compiled[next(iter(self._compiled))]
        # The spec is kept beside its validator, so that its id cannot be given to another object.
        self._compiled[id(spec)] = (spec, validator)
        return validator


def _refuse(spec: ToolSpec, lines: list[str]) -> NoReturn:
    raise refusal(
        f"{spec.name}: invalid arguments, nothing was run.\n" + "\n".join(f"- {line}" for line in lines),
        "invalid_arguments",
    )


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer outside itself, so {uri} was not fetched")
