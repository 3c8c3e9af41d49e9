"""Signatures as JSON Schema. The functions here are ours, so nothing needs a box."""

import enum
import io
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from acquired_skills.in_box.json_values import describe_unsendable, to_json
from acquired_skills.in_box.skill_arguments import NotDescribable, accept, describe

pytestmark = pytest.mark.spec("SKILL-3")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Box:
    corner: Point
    colour: Colour = Colour.RED


def rich(
    day: date,
    colour: Colour,
    box: Box | None = None,
    size: Annotated[int, Field(ge=1, le=9)] = 3,
    tags: set[str] = frozenset(),  # type: ignore[assignment]  # a default nobody can change
) -> dict[str, Any]:
    """Take arguments of many types.

    Args:
        day: when
            it is.
        colour (Colour): of the box.
    """
    return {"day": day, "colour": colour, "box": box, "size": size, "tags": tags}


def plain(
    text: str,
    numbers: list[float],
    mode: Literal["a", "b"] = "a",
    schema: dict[str, int | None] | None = None,
    copy: Sequence[str] = (),
) -> Any:
    """Take plain values. text: the text to read."""


def test_defaults_enums_unions_nested_models_and_descriptions_are_described() -> None:
    found = describe(rich)
    schema = found["parameters"]
    assert schema["required"] == ["day", "colour"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["day"] == {"type": "string", "format": "date", "description": "when it is."}
    assert schema["properties"]["size"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}
    assert schema["properties"]["box"] == {"anyOf": [{"$ref": "#/$defs/Box"}, {"type": "null"}], "default": None}
    assert schema["$defs"]["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert schema["$defs"]["Box"]["properties"]["corner"] == {"$ref": "#/$defs/Point"}
    assert not found["plain"]


def test_plain_values_need_no_conversion_even_if_parameters_have_unusual_names() -> None:
    found = describe(plain)
    assert found["plain"]
    assert list(found["parameters"]["properties"]) == ["text", "numbers", "mode", "schema", "copy"]
    assert found["parameters"]["required"] == ["text", "numbers"]
    assert found["parameters"]["properties"]["mode"] == {"type": "string", "enum": ["a", "b"], "default": "a"}


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def nothing() -> int:
        """Take nothing."""
        return 1

    assert describe(nothing) == {
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "plain": True,
        "form": "function",
        "returns": {"type": "integer"},
    }


def test_json_is_converted_to_the_annotated_types_and_only_given_arguments_are_passed() -> None:
    given = {"day": "2026-01-02", "colour": "blue", "box": {"corner": {"x": 1}, "colour": "red"}}
    assert accept(rich, given) == {
        "day": date(2026, 1, 2),
        "colour": Colour.BLUE,
        "box": Box(Point(x=1), Colour.RED),
    }
    assert to_json(rich(**accept(rich, given))) == {
        "day": "2026-01-02",
        "colour": "blue",
        "box": {"corner": {"x": 1, "y": 0}, "colour": "red"},
        "size": 3,
        "tags": [],
    }


def test_an_error_names_the_wrong_argument_and_its_value() -> None:
    with pytest.raises(ValueError, match=r"colour: .*not 'green'"):
        accept(rich, {"day": "2026-01-02", "colour": "green"})


class Leaf:
    """A node of a tree."""

    def __init__(self, value: int, left: "Leaf | None" = None) -> None:
        self.value = value
        self.left = left


class Bare:
    def __init__(self, val=0, children=None):  # type: ignore[no-untyped-def]
        self.val = val
        self.children = children


def planted(leaf: Leaf | None, all_of_them: dict[str, list[Leaf]], bare: Bare) -> None:
    """Take instances of plain classes."""


@pytest.mark.spec("SKILL-12")
def test_plain_classes_are_described_and_created_by_their_constructors() -> None:
    found = describe(planted)
    assert not found["plain"]
    assert found["parameters"]["$defs"]["Leaf"] == {
        "type": "object",
        "description": "A node of a tree.",
        "properties": {"value": {"type": "integer"}, "left": {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "null"}]}},
        "required": ["value"],
        "additionalProperties": False,
    }
    leaf = {"value": 1, "left": {"value": 2}}
    given = accept(
        planted, {"leaf": leaf, "all_of_them": {"a": [leaf]}, "bare": {"val": [7], "children": [{"val": 8}]}}
    )
    assert given["leaf"].left.value == 2
    assert type(given["all_of_them"]["a"][0]) is Leaf
    assert type(given["bare"].children[0]) is Bare
    assert to_json(given["bare"], __name__) == {"val": [7], "children": [{"val": 8, "children": None}]}
    with pytest.raises(ValueError, match="valu"):
        accept(planted, {"leaf": {"valu": 1}, "all_of_them": {}, "bare": {"val": 1}})


@pytest.mark.spec("SKILL-12")
def test_results_of_other_kinds_become_json() -> None:
    value = {
        1: (Fraction(1, 3), range(2), deque([1])),
        (2, "b"): {"c", "a", "b"},
        None: [Counter("aa"), defaultdict(int, x=1), OrderedDict(y=2), Decimal("1.50"), b"bytes"],
    }
    assert to_json(value) == {
        "1": ["1/3", [0, 1], [1]],
        "2,b": ["a", "b", "c"],
        "None": [{"a": 2}, {"x": 1}, {"y": 2}, "1.50", "bytes"],
    }


@pytest.mark.spec("SKILL-12")
def test_a_value_that_contains_itself_or_never_ends_is_a_type_error() -> None:
    loop = Bare(1)
    loop.children = [loop]
    wide = Bare(1)
    for _ in range(50):
        wide = Bare(1, [wide, wide])
    for value in (loop, wide):
        with pytest.raises(TypeError):
            to_json(value, __name__)


def unknown(x: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take a value of an undefined type."""


class Opaque(io.StringIO):
    """Not a plain class, because its instances have state besides their attributes."""


def opaque(thing: Opaque) -> None:
    """Take a value that JSON cannot represent."""


def many(*rest: int) -> None:
    """Take many."""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (unknown, "Nowhere"),
        (opaque, "`thing` has the type Opaque"),
        (many, r"\*rest"),
    ],
)
def test_a_parameter_that_cannot_be_described_is_named(function: Any, says: str) -> None:
    with pytest.raises(NotDescribable, match=says):
        describe(function)


def test_a_value_that_json_cannot_represent_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="list_iterator"):
        to_json(iter([1]))
    with pytest.raises(TypeError, match="Opaque"):
        to_json(Opaque())


def test_the_part_of_a_value_that_json_cannot_represent_is_named() -> None:
    assert describe_unsendable(object(), "").startswith("a value of type object (")
    found = describe_unsendable({"rows": [1, (2, object())], "more": [1]}, "")
    assert found.startswith("a dict in which `result['rows'][1][1]` has the type object (")
    loop: list[Any] = []
    loop.append(loop)
    assert "ircular" in describe_unsendable(loop, "") or "recurs" in describe_unsendable(loop, "").lower()
