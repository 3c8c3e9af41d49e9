"""Schemas of remote tools that would make validation take too long are rejected."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats.bounded_schema import MOST_DEPTH, schema_problem
from engine.remote.manifest import read_manifest
from engine.remote.schemas import SchemaError, usable_schema

pytestmark = pytest.mark.spec("MOD-1")

AGAIN = {"$ref": "#/$defs/n"}


def doubling(levels: int, width: int = 8, pointer: str = "#/$defs") -> dict[str, Any]:
    """Return a schema in which every level refers to the previous one `width` times: width ** levels steps."""
    defs: dict[str, Any] = {"a0": {"type": "object"}}
    for level in range(1, levels + 1):
        defs[f"a{level}"] = {"allOf": [{"$ref": f"{pointer}/a{level - 1}"}] * width}
    return {"type": "object", "$defs": defs, "allOf": [{"$ref": f"{pointer}/a{levels}"}]}


def recursive(node: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": AGAIN}, "$defs": {"n": node}}


@pytest.mark.parametrize("pointer", ["#/$defs", "#/%24defs"])
def test_a_small_schema_whose_references_multiply_is_rejected(pointer: str) -> None:
    bomb = doubling(20, pointer=pointer)
    assert len(json.dumps(bomb)) < 6_000
    with pytest.raises(SchemaError, match=r"more than 10,000 subschemas"):
        usable_schema(bomb)


def test_only_the_tool_with_such_a_schema_is_skipped() -> None:
    tools = [{"name": "m.bomb", "parameters": doubling(9)}, {"name": "m.good", "parameters": doubling(2)}]
    offer = read_manifest("m", {"module_name": "m", "tools": tools}, timeout_s=1)
    assert [spec.name for spec in offer.specs] == ["m.good"]
    assert "10,000" in offer.dropped["m.bomb"]


@pytest.mark.parametrize(
    "node",
    [
        {"allOf": [{"properties": {"x": AGAIN}}, {"properties": {"x": AGAIN}}]},
        {"anyOf": [{"properties": {"x": AGAIN}}, {"additionalProperties": AGAIN}]},
        {"items": AGAIN, "contains": AGAIN},
        {"properties": {"x": AGAIN}, "patternProperties": {"^x": AGAIN}},
    ],
    ids=["same member", "any member", "items", "pattern"],
)
def test_a_schema_whose_work_doubles_with_every_level_of_the_value_is_rejected(node: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=r"more than 10,000 subschemas"):
        usable_schema(recursive(node))


def test_a_circular_reference_that_does_not_descend_into_the_value_is_rejected() -> None:
    for loop in ({"$ref": "#"}, recursive({"allOf": [AGAIN]}), recursive({"not": {"if": AGAIN}})):
        assert "leads back to itself" in schema_problem(loop)


@pytest.mark.parametrize(
    "node",
    [
        {"properties": {"children": {"type": "array", "items": AGAIN}}},
        {"properties": {"left": AGAIN, "right": AGAIN}, "additionalProperties": AGAIN},
        {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": AGAIN},
                {"type": "object", "additionalProperties": AGAIN},
            ]
        },
        {"anyOf": [{"properties": {"and": {"items": AGAIN}}}, {"properties": {"not": AGAIN}}, {"type": "string"}]},
        {"prefixItems": [{"type": "string"}, AGAIN, AGAIN], "items": AGAIN},
    ],
    ids=["tree", "binary tree", "JSON", "expression", "list form"],
)
def test_ordinary_recursive_schemas_are_accepted(node: dict[str, Any]) -> None:
    assert usable_schema(recursive(node))["$defs"]["n"] == node


def test_keywords_in_data_and_members_named_like_keywords_are_accepted() -> None:
    members = {"$ref": {"type": "string"}, "$id": {"type": "string"}, "$dynamicRef": {"type": "string"}}
    assert usable_schema({"properties": members, "default": {"$ref": "nowhere"}, "examples": [{"$dynamicRef": "#x"}]})


@pytest.mark.parametrize("keyword", ["$dynamicRef", "$recursiveRef"])
def test_references_resolved_only_during_validation_are_rejected(keyword: str) -> None:
    assert keyword in schema_problem({"properties": {"x": {keyword: "#"}}})


def test_references_out_of_the_schema_and_changed_base_uris_are_rejected() -> None:
    assert "not a JSON pointer" in schema_problem({"$ref": "http://json-schema.org/draft-07/schema#"})
    assert "not a JSON pointer" in schema_problem({"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}})
    assert "has no target" in schema_problem({"$ref": "#/$defs/none"})
    hidden = {"$id": "http://a/", "$defs": {"n": {}}, "properties": {"y": AGAIN}}
    assert "$id" in schema_problem({"properties": {"x": hidden}, "$defs": {"n": {}}})
    assert "$id" in schema_problem({"$ref": "#/$defs/h/properties/y", "$defs": {"h": hidden, "n": {}}})


def test_depth_and_size_are_checked_first() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MOST_DEPTH * 20):
        deep = {"not": deep}
    assert "deeper than 64" in schema_problem(deep)
    assert "64 KiB" in schema_problem({"description": "x" * 70_000})
    assert "not JSON" in schema_problem({"default": object()})
    chain = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}]} for level in range(500)}
    assert "deeper than 64" in schema_problem({"$defs": {**chain, "a500": {}}, "$ref": "#/$defs/a0"})


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["#", "#/$defs/n", "#/x", "#/$defs/n/0", "$id"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$ref", "$defs", "n", "allOf", "items", "properties", "not", "x", "$id", "prefixItems"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["$ref", "$defs", "allOf", "properties", "items"]), _json))
def test_any_schema_is_either_accepted_or_rejected(schema: dict[str, Any]) -> None:
    assert isinstance(schema_problem(schema), str)
