"""The types of JSDoc comments as JSON Schema."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.proof.programs.doc_comments import read_interface
from acquired_skills.proof.programs.type_expressions import UnknownType, schema_of

pytestmark = pytest.mark.spec("SKILL-22")

STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("string", STRING),
        ("string[][]", {"type": "array", "items": {"type": "array", "items": STRING}}),
        ("Array<number|null>", {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}),
        ("'a' | \"b\" | 3", {"enum": ["a", "b", 3]}),
        ("?string", {"anyOf": [STRING, {"type": "null"}]}),
        ("Record<string, boolean>", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        ("Promise<string>", STRING),
        ("*", {}),
        (
            "{x: number, y?: (string|integer)[]}",
            {
                "type": "object",
                "properties": {
                    "x": {"type": "number"},
                    "y": {"type": "array", "items": {"anyOf": [STRING, {"type": "integer"}]}},
                },
                "required": ["x"],
            },
        ),
    ],
)
def test_types_become_schemas(text: str, schema: dict[str, Any]) -> None:
    assert schema_of(text) == schema


@given(st.text("stringum[]<>{}()|?*:,'\" ", max_size=60))
def test_any_other_text_raises_unknown_type(text: str) -> None:
    with contextlib.suppress(UnknownType):
        assert isinstance(schema_of(text), dict)


def test_a_comment_gives_parameters_in_order_with_defaults() -> None:
    found = read_interface(
        "What it does.\n\n@param {string} b - First,\n  continued.\n@param {integer} [a=3] Second.\n"
        "@param {boolean=} c\n@returns {string[]}"
    )
    assert found.names == ["b", "a", "c"]
    assert found.parameters["required"] == ["b"]
    assert found.parameters["properties"]["b"] == {"type": "string", "description": "First, continued."}
    assert found.parameters["properties"]["a"]["default"] == 3
    assert found.returns == {"type": "array", "items": {"type": "string"}}
    assert found.problems == ()


def test_the_fields_of_an_object_are_described_one_by_one() -> None:
    found = read_interface(
        "@param {object} options\n@param {string} options.separator - Between words.\n"
        "@param {object} [options.style]\n@param {integer} [options.style.width=80]"
    )
    assert found.problems == ()
    assert found.names == ["options"]
    assert found.parameters["properties"]["options"] == {
        "type": "object",
        "properties": {
            "separator": {"type": "string", "description": "Between words."},
            "style": {"type": "object", "properties": {"width": {"type": "integer", "default": 80}}, "required": []},
        },
        "required": ["separator"],
    }
