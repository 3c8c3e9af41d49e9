"""A typed function becomes a tool."""

import threading
from dataclasses import dataclass
from typing import Annotated, Literal

import jsonschema_rs
import pytest
from pydantic import Field

from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.contract.source import Tool
from engine.contract.spec import Annotations
from engine.registry.decorate import BlockingFunctionTool, FunctionTool, tool


@dataclass
class Point:
    x: int
    title: str = "here"


@tool(category="maths", annotations=Annotations(read_only=True), aliases=("plus",), timeout_s=5, requires=("sandbox",))
async def add(
    ctx: CallContext,
    a: int,
    point: Point,
    *,
    schema: Literal["x", "y"] = "x",
    copy: list[str] | None = None,
    n: Annotated[int, Field(ge=1, description="its own words")] = 3,
) -> tuple:
    """Add things up, quickly
    and well. Then rest.

    A second paragraph.

    Args:
        a: The first,
            continued.
        point: Where.
    copy: As a plain line.

    Raises:
        ValueError: for programmers.
    """
    return (ctx, a, point, schema, copy, n)


def test_the_spec_comes_from_the_function():
    spec = add.spec
    assert isinstance(add, FunctionTool)
    assert isinstance(add, Tool)
    assert (spec.name, spec.category, spec.timeout_s, spec.aliases) == ("add", "maths", 5, ("plus",))
    assert spec.description == "Add things up, quickly and well. Then rest.\n\nA second paragraph."
    assert spec.summary == "Add things up, quickly and well"
    assert spec.replay_safe


def test_the_schema_has_types_defaults_and_descriptions_but_no_titles():
    schema = add.spec.parameters
    properties = schema["properties"]
    assert list(properties) == ["a", "point", "schema", "copy", "n"]
    assert schema["required"] == ["a", "point"]
    assert schema["additionalProperties"] is False
    assert properties["a"] == {"type": "integer", "description": "The first, continued."}
    assert properties["copy"]["description"] == "As a plain line."
    assert properties["copy"]["default"] is None
    assert properties["n"] == {"type": "integer", "minimum": 1, "default": 3, "description": "its own words"}
    assert schema["$defs"]["Point"]["properties"]["title"]["type"] == "string"
    assert "title" not in schema["$defs"]["Point"]
    jsonschema_rs.meta.validate(schema)


async def test_arguments_are_converted_to_annotated_types_and_defaults_come_from_the_function():
    assert await add.run("ctx", {"a": 1, "point": {"x": 2}}) == ("ctx", 1, Point(2), "x", None, 3)


@pytest.mark.spec("CALL-3")
async def test_arguments_that_match_the_schema_but_not_the_type_are_rejected_before_the_function_runs():
    with pytest.raises(ToolFailure, match=r"`a`: .*given 'x'") as caught:
        await add.run("ctx", {"a": "x", "point": {"x": 2}})
    assert (caught.value.reason, caught.value.may_have_started, caught.value.end) == (
        "invalid_arguments",
        False,
        "refused",
    )


@pytest.mark.spec("CALL-6")
async def test_a_sync_function_runs_in_another_thread_even_without_the_pipeline():
    @tool()
    def where() -> int:
        """Say where."""
        return threading.get_ident()

    assert isinstance(where, BlockingFunctionTool)
    assert await where.run(None, {}) != threading.get_ident()


def test_functions_that_cannot_be_tools_are_refused_when_the_module_is_imported():
    async def untyped(a):
        """Doc."""

    async def many(*args: int):
        """Doc."""

    async def silent(a: int):
        pass

    async def fine():
        """Doc."""

    for function, problem in [(untyped, "needs a type"), (many, "cannot be an argument"), (silent, "no description")]:
        with pytest.raises(TypeError, match=problem):
            tool()(function)
    with pytest.raises(TypeError, match="is not a valid tool name"):
        tool(name="no spaces please")(fine)
    with pytest.raises(TypeError, match="more than 0"):
        tool(timeout_s=0)(fine)
