"""Output schemas are derived from return annotations, and match every value of the annotated type."""

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from engine.contract.context import CallContext, Produced
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.dispatch.render import render
from engine.dispatch.validate import misfit
from engine.formats.bounded_schema import schema_problem
from engine.formats.mcp import result_to_mcp_format, tool_to_mcp_format
from engine.registry.decorate import tool
from engine.registry.output_schema import output_schema

pytestmark = pytest.mark.spec("REG-11")


class Colour(enum.Enum):
    RED = "red"
    FOUR = 4


@dataclasses.dataclass
class Point:
    title: str
    pattern: float = 0.0
    seen: set[int] = dataclasses.field(default_factory=set)


class Row(NamedTuple):
    name: str
    value: bytes = b""


class Model(BaseModel):
    when: dt.datetime
    points: list[Point]


class Keys(TypedDict):
    a: int
    properties: NotRequired[dict[Colour, str]]


ATOMS: list[Any] = [
    *(int, str, bool, float, bytes, type(None), dt.date, dt.timedelta, decimal.Decimal, uuid.UUID),
    *(Colour, Point, Row, Model, Keys, Literal["x", 2]),
]
KEYS: list[Any] = [int, str, Colour, dt.date, Literal[1, 2]]
TYPES = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        inner.map(lambda each: list[each])  # type: ignore[valid-type]
        | inner.map(lambda each: Optional[each])  # noqa: UP045 -- `|` takes no Literal before Python 3.14
        | st.tuples(st.sampled_from(KEYS), inner).map(lambda each: dict[each[0], each[1]])  # type: ignore[index]
        | st.tuples(inner, inner).map(lambda each: tuple[each[0], each[1]])  # type: ignore[index]
    ),
    max_leaves=4,
) | st.sampled_from([set[int], frozenset[float]])


@pytest.mark.slow
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_every_value_of_a_type_matches_its_schema_for_programs_and_mcp_clients(data: st.DataObject) -> None:
    annotation = data.draw(TYPES)
    schema = output_schema(annotation)
    if schema is None:
        assert annotation is type(None)
        return
    output, _, _ = render(data.draw(st.from_type(annotation)))
    assert not schema_problem(schema)
    assert misfit(output, schema) == ""
    published = tool_to_mcp_format(ToolSpec("t", "A tool.", returns=schema)).output_schema
    assert published is not None
    assert published["type"] == "object"
    made = result_to_mcp_format(ToolResult(success=True, output=output), schema)
    jsonschema.validators.validator_for(published).check_schema(published)
    jsonschema.validate(made.structured_content, published)


@pytest.mark.parametrize("annotation", [Any, object, None, Callable[[], int], Literal[tuple(range(9_000))]])
def test_an_uninformative_or_too_complex_type_gives_no_schema(annotation: Any) -> None:
    assert output_schema(annotation) is None


def test_names_that_are_keywords_of_json_schema_are_kept() -> None:
    schema = output_schema(Point)
    assert schema is not None
    assert list(schema["$defs"]["Point"]["properties"] if "$defs" in schema else schema["properties"]) == [
        *("title", "pattern", "seen")
    ]
    keys = output_schema(Keys)
    assert keys is not None
    assert keys["required"] == ["a"]


def test_constraints_that_hold_only_in_python_are_not_in_the_schema() -> None:
    assert output_schema(dict[Literal[1, 2], int]) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert output_schema(dict[Annotated[str, Field(pattern="^a")], int]) == {"type": "object"}
    assert output_schema(set[str]) == {"type": "array", "items": {"type": "string"}}


def test_a_tool_takes_its_output_schema_from_its_return_annotation() -> None:
    @tool()
    async def counted(ctx: CallContext) -> Produced[dict[str, int]]:
        """Count."""
        return Produced[dict[str, int]]({"a": 1}, "one")

    @tool()
    def plain() -> list[int]:
        """Count."""
        return [1]

    @tool()
    def bare() -> Produced:
        """Count."""
        return Produced(1)

    @tool()
    def either() -> Produced[int] | str:
        """Count."""
        return "1"

    @tool()
    def silent():  # type: ignore[no-untyped-def]
        """Count."""

    assert counted.spec.returns == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert plain.spec.returns == {"type": "array", "items": {"type": "integer"}}
    assert [each.spec.returns for each in (bare, either, silent)] == [None, None, None]


def test_a_schema_violation_is_reported_with_its_location_and_value() -> None:
    assert misfit({"a": "x"}, {"type": "object", "additionalProperties": {"type": "integer"}}) == (
        '- `a`: given "x", expected integer.'
    )
    assert misfit("x", {"type": "integer"}) == '- `the output`: given "x", expected integer.'
    assert "cannot be checked" in misfit(1, {"$ref": "https://example.com/schema.json"})
