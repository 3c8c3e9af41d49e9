"""Conversions of a ToolSpec to the formats of others, checked against the types that they publish."""

import pytest
from mcp_types import CallToolResult, TextContent, Tool
from pydantic import TypeAdapter

from engine.contract.failure import Failure, FailureClass
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations, ToolSpec
from engine.formats.mcp import result_to_mcp_format, tool_to_mcp_format, tools_to_mcp_format
from engine.formats.openai import tools_to_openai_format

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
SPECS = [
    ToolSpec("zeta", "Last by name, first by place.", SCHEMA),
    ToolSpec("alpha", "Reads.", SCHEMA, annotations=Annotations(read_only=True, idempotent=True)),
]


def test_openai_tools_match_the_providers_type_and_keep_their_order() -> None:
    from openai.types.chat import ChatCompletionToolParam  # takes seconds, in every process that collects tests

    tools = tools_to_openai_format(SPECS)
    TypeAdapter(list[ChatCompletionToolParam]).validate_python(tools)
    assert [tool["function"]["name"] for tool in tools] == ["zeta", "alpha"]
    assert tools[0]["function"]["parameters"] == SCHEMA


def test_identical_tools_give_identical_bytes() -> None:
    assert repr(tools_to_openai_format(SPECS)) == repr(tools_to_openai_format(list(SPECS)))


def test_mcp_tools_have_schema_and_hints() -> None:
    careful, reading = tools_to_mcp_format(SPECS)
    assert reading.input_schema == SCHEMA
    assert reading.annotations is not None
    assert (reading.annotations.read_only_hint, reading.annotations.destructive_hint) == (True, False)
    assert careful.annotations is not None
    assert careful.annotations.read_only_hint is False
    Tool.model_validate_json(reading.model_dump_json(by_alias=True))


def test_a_schema_without_a_type_becomes_an_object_for_mcp() -> None:
    assert tool_to_mcp_format(ToolSpec("bare", "", {"properties": {}})).input_schema["type"] == "object"


def test_a_successful_result_has_its_text_and_its_value() -> None:
    made = result_to_mcp_format(ToolResult(success=True, output={"n": 1}, message="one"))
    assert made.is_error is False
    assert made.structured_content == {"n": 1}
    assert [block.text for block in made.content if isinstance(block, TextContent)] == ["one"]


@pytest.mark.parametrize("output", [1, "x", [1], None])
def test_a_value_that_is_not_an_object_appears_only_in_the_text(output: object) -> None:
    made = result_to_mcp_format(ToolResult(success=True, output=output, message="m"))
    assert made.structured_content is None


def test_a_failed_result_contains_the_reason_and_the_failure_class() -> None:
    failure = Failure(FailureClass.DIAGNOSTIC, "invalid_arguments")
    made = result_to_mcp_format(ToolResult(success=False, error="x is missing", failure=failure))
    assert made.is_error is True
    assert made.meta is not None
    assert made.meta["knackbox/failure_class"] == "DIAGNOSTIC"
    CallToolResult.model_validate_json(made.model_dump_json(by_alias=True))


def test_a_success_without_a_message_has_no_text() -> None:
    assert result_to_mcp_format(ToolResult(success=True)).content == []


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.spec("FACE-22")
@pytest.mark.parametrize(
    ("returns", "wrapped"),
    [
        (OBJECT, False),
        ({"anyOf": [OBJECT, {"$ref": "#/$defs/Row"}], "$defs": {"Row": OBJECT}}, False),
        ({"$ref": "#/$defs/Row", "$defs": {"Row": OBJECT}}, False),
        ({"anyOf": [OBJECT, {"type": "null"}]}, True),
        ({"type": "integer"}, True),
        ({"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}, True),
    ],
)
def test_an_output_that_may_not_be_an_object_is_wrapped_in_one(returns: dict[str, object], wrapped: bool) -> None:
    told = tool_to_mcp_format(ToolSpec("t", "A tool.", returns=returns)).output_schema
    assert told is not None
    assert told["type"] == "object"
    assert ("result" in told.get("properties", {})) == wrapped
    made = result_to_mcp_format(ToolResult(success=True, output={"n": 1}), returns)
    assert made.structured_content == ({"result": {"n": 1}} if wrapped else {"n": 1})


def test_a_failure_is_not_wrapped() -> None:
    failed = ToolResult(success=False, output=None, error="no")
    assert result_to_mcp_format(failed, {"type": "integer"}).structured_content is None
