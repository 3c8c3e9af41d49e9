"""Lists of tools match the types that each provider publishes, and no name or part of a schema is lost."""

import re
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import TypeAdapter

from engine.contract.spec import ToolSpec
from engine.formats.anthropic import tools_to_anthropic_format
from engine.formats.gemini import tools_to_gemini_format
from engine.formats.names import LONGEST, ProviderNames
from engine.formats.openai import tools_to_openai_format, tools_to_responses_format
from engine.formats.schema import GEMINI, NOT_AT_THE_ROOT, FormatError, narrowed, object_schema

pytestmark = pytest.mark.spec("FMT-1")
ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

# Values, and schemas for such values: every keyword below is satisfied by some of the values and violated by others.
scalars = some.one_of(some.none(), some.booleans(), some.integers(-3, 3), some.sampled_from(["", "a", "ab", "b"]))
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from("xyz"), inner, max_size=3),
)


def _object(inner: some.SearchStrategy[Any]) -> some.SearchStrategy[dict[str, Any]]:
    names = some.sampled_from(["x", "y", "z"])
    return some.fixed_dictionaries(
        {"type": some.just("object"), "properties": some.dictionaries(names, inner, max_size=3)},
        optional={
            "required": some.lists(names, max_size=2, unique=True),
            "additionalProperties": some.booleans() | inner,
            "patternProperties": some.just({"^y": {}}),
            "minProperties": some.integers(0, 2),
        },
    )


leaves = some.one_of(
    some.just({}),
    some.booleans(),
    some.just({"$ref": "#/$defs/d"}),
    some.fixed_dictionaries({"const": scalars}),
    some.fixed_dictionaries({"enum": some.lists(scalars, min_size=1, max_size=3)}),
    some.fixed_dictionaries({"type": some.just("integer"), "exclusiveMinimum": some.integers(-2, 2)}),
    some.fixed_dictionaries({"type": some.just("string"), "pattern": some.sampled_from(["^a", "b$"])}),
    some.fixed_dictionaries({"type": some.sampled_from([["string", "null"], "boolean", "null"])}),
)
schemas = some.recursive(
    leaves,
    lambda inner: some.one_of(
        _object(inner),
        some.fixed_dictionaries({"type": some.just("array"), "items": inner}, optional={"minItems": some.just(1)}),
        some.fixed_dictionaries({"prefixItems": some.lists(inner, min_size=1, max_size=2), "items": inner}),
        *(
            some.fixed_dictionaries({kind: some.lists(inner, min_size=1, max_size=3)})
            for kind in ("anyOf", "oneOf", "allOf")
        ),
        some.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=8,
)
tools_schemas = some.builds(
    lambda root, d: {**root, "$defs": {"d": d}}, _object(schemas), some.just({"type": "string"})
)
arguments = some.dictionaries(some.sampled_from("xyz"), values, max_size=3)
names = some.lists(some.text(some.characters(codec="utf-8"), min_size=1, max_size=80), unique=True, max_size=8)


def keywords_of(schema: Any) -> set[str]:
    """Return every keyword that is used anywhere in a schema."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            found |= set().union(*(keywords_of(each) for each in value.values()))
        elif key in {"anyOf", "prefixItems"}:
            found |= set().union(*(keywords_of(each) for each in value))
        elif key in {"items", "additionalProperties"}:
            found |= keywords_of(value)
    return found


@given(schema=tools_schemas, value=arguments)
def test_no_dialect_rejects_arguments_that_the_tool_accepts(schema: dict[str, Any], value: dict[str, Any]) -> None:
    if not jsonschema_rs.validator_for(schema).is_valid(value):
        return
    told = object_schema(ToolSpec("t", "Does.", schema))
    assert jsonschema_rs.validator_for(told).is_valid(value)
    assert jsonschema_rs.validator_for(narrowed(told, GEMINI)).is_valid(value)


@given(schema=tools_schemas)
def test_a_dialect_has_only_keywords_that_its_provider_documents(schema: dict[str, Any]) -> None:
    tool = ToolSpec("t", "Does.", schema)
    assert not NOT_AT_THE_ROOT & set(object_schema(tool))
    assert keywords_of(narrowed(object_schema(tool), GEMINI)) <= GEMINI


@dataclass(frozen=True)
class ProviderTypes:
    """The types that each provider's client publishes for its list of tools."""

    openai: TypeAdapter[Any]
    responses: TypeAdapter[Any]
    anthropic: TypeAdapter[Any]
    gemini: TypeAdapter[Any]


@pytest.fixture(scope="module")
def provider_types() -> ProviderTypes:
    """Import the types. At the top, these imports would take seconds in every process that collects tests."""
    from anthropic.types import ToolParam
    from google.genai.types import Tool
    from openai.types.chat import ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam

    return ProviderTypes(
        openai=TypeAdapter(list[ChatCompletionToolParam]),
        responses=TypeAdapter(list[FunctionToolParam]),
        anthropic=TypeAdapter(list[ToolParam]),
        gemini=TypeAdapter(list[Tool]),
    )


@pytest.mark.slow
@given(tools=names, schema=tools_schemas)
def test_every_tool_matches_the_type_that_each_provider_publishes(
    provider_types: ProviderTypes, tools: list[str], schema: dict[str, Any]
) -> None:
    specs = [ToolSpec(name, f"Does {name}.", schema) for name in tools]
    assert len(provider_types.openai.validate_python(tools_to_openai_format(specs))) == len(specs)
    assert len(provider_types.responses.validate_python(tools_to_responses_format(specs))) == len(specs)
    assert len(provider_types.anthropic.validate_python(tools_to_anthropic_format(specs))) == len(specs)
    gemini = provider_types.gemini.validate_python(tools_to_gemini_format(specs))
    assert sum(len(each.function_declarations or ()) for each in gemini) == len(specs)


@given(tools=names)
def test_provider_names_are_valid_unique_and_converted_back(tools: list[str]) -> None:
    known = ProviderNames(tools)
    there = [known.to_provider(name) for name in tools]
    assert all(ALLOWED.match(each) for each in there)
    assert len(set(there)) == len(tools)
    assert [known.from_provider(each) for each in there] == tools
    assert there == [ProviderNames(reversed(tools)).to_provider(name) for name in tools]


@given(name=some.from_regex(ALLOWED, fullmatch=True), others=names)
def test_a_valid_name_is_not_changed(name: str, others: list[str]) -> None:
    assert ProviderNames([name, *others]).to_provider(name) == name


def test_dots_are_replaced_and_clashing_names_stay_distinct() -> None:
    known = ProviderNames(["weather.today", "a.b", "a__b", "a" * 65])
    assert known.to_provider("weather.today") == "weather__today"
    assert known.to_provider("a__b") == "a__b"
    assert known.to_provider("a.b").startswith("a__b-")
    assert len(known.to_provider("a" * 65)) == LONGEST
    assert known.from_provider("made_up") == "made_up"


def test_keywords_that_a_dialect_lacks_are_described_in_words() -> None:
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "^[A-Z]+$", "description": "Of a country."}},
    }
    told = tools_to_gemini_format([ToolSpec("t", "Does.", schema)])[0]["functionDeclarations"][0]
    code = told["parametersJsonSchema"]["properties"]["code"]
    assert code == {"type": "string", "description": "Of a country. (pattern: ^[A-Z]+$)"}


def test_arguments_defined_by_a_reference_are_found() -> None:
    schema = {"$ref": "#/$defs/In", "$defs": {"In": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    assert object_schema(ToolSpec("t", "Does.", schema))["properties"] == {"n": {"type": "integer"}}


def test_definitions_of_older_schemas_are_converted_for_gemini() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/definitions/N"}},
        "definitions": {"N": {"type": "integer"}},
    }
    told = narrowed(object_schema(ToolSpec("t", "Does.", schema)), GEMINI)
    assert jsonschema_rs.validator_for(told).is_valid({"n": 1})
    assert not jsonschema_rs.validator_for(told).is_valid({"n": "x"})


@pytest.mark.parametrize(
    "make", [tools_to_openai_format, tools_to_responses_format, tools_to_anthropic_format, tools_to_gemini_format]
)
def test_arguments_that_are_not_an_object_are_rejected_with_a_reason(make: Any) -> None:
    with pytest.raises(FormatError, match=r"listing: its arguments are of type 'array'"):
        make([ToolSpec("listing", "Lists.", {"type": "array", "items": {}})])
