"""Makes calls that pass the optional parameters which no test passes (GATE-10).

Other calls vary only the arguments that the tests pass. So without these calls nothing would show a fault in an option
that no test uses. The values come from the option's schema, its default, and the constants in the code that it is
compared with.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from acquired_skills.model.parsed import ParsedSource
from acquired_skills.model.skill_schemas import why_misfit
from acquired_skills.proof.answers import Data
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.varied_calls import value_key

MOST_ASKED = 3  # maximum number of options that are asked about
_MOST_VALUES = 4  # maximum number of values of one option
_BASES = 3  # number of test calls that an option is added to


def untested_options(schema: Mapping[str, Any], calls: JsonCalls) -> list[str]:
    """Return the parameters with a default that no call of the tests passes.

    Args:
        schema: JSON Schema of the skill's parameters.
    """
    passed = {name for call in calls.examples for name in calls.names(call)}
    required = schema.get("required", ())
    return [name for name in schema.get("properties", {}) if name not in required and name not in passed]


def option_calls(
    options: Sequence[str], schema: Mapping[str, Any], calls: JsonCalls, code: ParsedSource
) -> list[dict[str, Any]]:
    """Return calls of the tests, each with a value for one of the options. There may be none for an option.

    Args:
        schema: JSON Schema of the skill's parameters.
        code: The code, whose constants are used as values.
    """
    bases = sorted((each for each in calls.examples if calls.arguments(each) is not None), key=_size)[:_BASES]
    return [
        {**call, "named": {**call["named"], option: value}}
        for option in options
        for value in list(_values(option, schema, code))[:_MOST_VALUES]
        for call in bases
    ]


def _size(call: Data) -> tuple[int, str]:
    return len(value_key(call)), value_key(call)


def _values(option: str, schema: Mapping[str, Any], code: ParsedSource) -> Iterator[Any]:
    """Yield values that fit the schema of an option and differ from its default and from each other."""
    own = schema["properties"][option]
    seen = {value_key(own["default"])} if "default" in own else set()
    for value in (*_compared_with(option, code), *_of_schema(own), *_like(own.get("default"))):
        alone = {**schema, "properties": {option: own}, "required": [option]}
        if value_key(value) not in seen and not why_misfit({option: value}, alone):
            seen.add(value_key(value))
            yield value


def _compared_with(option: str, code: ParsedSource) -> Iterator[Any]:
    """Yield the constants that the code compares an option with."""
    for node in code.nodes:
        match node:
            case ast.Compare(left=left, comparators=others) if _has(option, (left, *others)):
                held = [inner for each in (left, *others) for inner in ast.walk(each)]
                yield from (each.value for each in held if isinstance(each, ast.Constant) and _is_plain(each.value))
            case ast.Match(subject=subject, cases=cases) if _has(option, [subject]):
                held = [inner for each in cases for inner in ast.walk(each.pattern)]
                yield from (each.value for each in held if isinstance(each, ast.Constant) and _is_plain(each.value))


def _has(option: str, nodes: Collection[ast.expr]) -> bool:
    return any(isinstance(each, ast.Name) and each.id == option for node in nodes for each in ast.walk(node))


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _of_schema(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield values of the types that a schema allows. Types that JSON does not have are left out."""
    if "enum" in schema:
        yield from (each for each in schema["enum"] if _is_plain(each))
        return
    for inner in schema.get("anyOf", ()):
        yield from _of_schema(inner)
    match schema.get("type"):
        case "boolean":
            yield from (True, False)
        case "integer":
            yield from (2, 1, 0, 3)
        case "number":
            yield from (2.0, 0.5, 0.0)
        case "string" if "format" not in schema:
            yield from ("a", "-", "")
        case "array" if not schema.keys() & {"prefixItems", "uniqueItems"}:
            yield from ([each] for each in _of_schema(schema.get("items", {})))
            yield []


def _like(default: Any) -> Iterator[Any]:
    """Yield values of the same type as a default, for an option without a type hint."""
    match default:
        case bool():
            yield not default
        case int() | float():
            yield from (default + 1, default - 1)
        case str():
            yield from (default.swapcase(), f"{default}{default[-1:]}", "")
