"""Hints inferred from arguments. The functions here are ours, so nothing needs a box."""

import datetime as dt
import io
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.in_box.inferred_hints import HintInference, SeenTypes, evaluated
from acquired_skills.in_box.skill_arguments import accept, describe
from acquired_skills.model.skill import HINT

pytestmark = pytest.mark.spec("SKILL-3")


@dataclass
class Point:
    x: int
    y: int


class Opaque(io.StringIO):
    """A class whose instances have state besides their attributes."""


def hint_of(*values: Any) -> str:
    seen = SeenTypes()
    for value in values:
        seen.add(value, __name__)
    return seen.hint()


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ((1, 2), "int"),
        ((1, 2.5), "float"),
        ((True,), "bool"),
        (("a", None), "str | None"),
        ((None,), "Any"),
        ((), "Any"),
        (([1], [], [2.5]), "list[float]"),
        (([],), "list[Any]"),
        (([1, "a"],), "list[Any]"),
        ((("a", "b"),), "tuple[str, ...]"),
        (({1, 2},), "set[int]"),
        (({"a": [1]},), "dict[str, list[int]]"),
        (({"a": 1, "b": "c"},), "dict[str, Any]"),
        (({(1, 2): 3},), "dict[Any, int]"),
        ((dt.date(2024, 1, 2),), "datetime.date"),
        ((Point(1, 2),), "Point"),
        ((Opaque(),), "Opaque"),
        ((len,), "Any"),
        ((1, "a", [2], (3,)), "Any"),
        (([[[[[[1]]]]]],), "list[list[list[list[list[Any]]]]]"),
    ],
)
def test_a_hint_covers_every_value_that_was_seen(values: tuple[Any, ...], hint: str) -> None:
    assert hint_of(*values) == hint


def with_hints(points, day, rate=0.5, *, mode=None):  # type: ignore[no-untyped-def]
    """Take points.

    Args:
        points: The places to visit.
    """
    return [points, day, rate, mode]


def test_parameters_without_hints_get_a_schema_and_conversion_from_the_calls() -> None:
    inference = HintInference(with_hints, __name__)
    inference.observe(({Point(1, 2).x},), {"day": dt.date(2024, 1, 2), "mode": "fast"})()
    inferred = inference.hints()
    assert inferred == {"points": "set[int]", "day": "datetime.date", "rate": "float", "mode": "str | None"}
    found = describe(with_hints, inferred)
    assert not found["plain"]
    assert found["inferred"] == inferred
    assert found["parameters"]["required"] == ["points", "day"]
    assert found["parameters"]["properties"]["points"] == {
        "type": "array",
        "items": {"type": "integer"},
        "uniqueItems": True,
        "description": "The places to visit.",
    }
    given = {"points": [1, 1], "day": "2024-01-02"}
    assert with_hints(**accept(with_hints, given, inferred)) == [{1}, dt.date(2024, 1, 2), 0.5, None]


def test_calls_that_raise_or_do_not_fit_are_not_used_for_inference() -> None:
    inference = HintInference(with_hints, __name__)
    inference.observe(("text", 3), {})  # the call raised, so its arguments are not used
    inference.observe((1, 2, 3, 4, 5), {})()
    inference.observe((), {"nowhere": 1})()
    assert inference.hints() == {"points": "Any", "day": "Any", "rate": "float", "mode": "Any"}


def test_a_type_that_json_cannot_be_converted_to_becomes_any() -> None:
    inference = HintInference(with_hints, __name__)
    inference.observe((Opaque(), 1j), {})()
    hints = inference.hints()
    assert (hints["points"], hints["day"]) == ("Any", "Any")
    assert describe(with_hints, hints)["parameters"]["properties"]["day"] == {}


def test_hints_in_the_code_are_not_replaced() -> None:
    def typed(one: str, other) -> int:  # type: ignore[no-untyped-def]
        """Take two."""
        return len(one) + len(other)

    inference = HintInference(typed, __name__)
    inference.observe((b"x", b"y"), {})()
    assert inference.hints() == {"other": "bytes"}
    assert describe(typed, {"one": "int", "other": "bytes"})["parameters"]["properties"]["one"] == {"type": "string"}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(st.lists(_VALUES, min_size=1, max_size=4))
def test_every_hint_is_a_type_and_can_be_stored(values: list[Any]) -> None:
    hint = hint_of(*values)
    evaluated(hint, __name__)
    assert re.fullmatch(HINT, hint)
