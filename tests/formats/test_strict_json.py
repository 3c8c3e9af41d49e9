"""The strict JSON reader accepts everything that the writer writes, and the reverse. (REG-5)"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.strict_json import DEEPEST, MOST_DIGITS, JsonError, read_first_object, read_json, write_json

pytestmark = pytest.mark.spec("REG-5")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(JSON)
def test_a_written_value_is_read_back_unchanged(value):
    assert read_json(write_json(value)) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": NaN}', "NaN is not a finite JSON number"),
        ("[-Infinity]", "-Infinity is not a finite JSON number"),
        ('{"maximum": 1e999}', "1e999 is not a finite JSON number"),
        ("[-1e999]", "-1e999"),
        ('{"a": 1, "b": 2, "a": 3}', "duplicate key 'a'"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than"),
        ("[" * 200_000, "nested more than"),
        ("1" * (MOST_DIGITS + 1), "digits"),
        (r'"\ud800"', "lone surrogate"),
        (r'{"\uDFFF": 1}', "lone surrogate"),
        ('{"a": }', "line 1 column 7"),
        (b"\xff", "utf-8"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_ambiguous_or_could_not_be_written_again_is_rejected(text, why):
    with pytest.raises(JsonError, match=why) as refused:
        read_json(text)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_json_at_the_limits_is_read():
    assert read_json("[" * DEEPEST + "]" * DEEPEST)
    assert read_json("9" * MOST_DIGITS) == int("9" * MOST_DIGITS)
    assert read_json(json.dumps("😀")) == "😀"  # two escapes that are one character


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: "a", "1": "b"}, {"a": {1}}, "\ud800", 10**200, {(): 1}]
)
def test_a_value_that_could_not_be_read_back_is_not_written(value):
    nested = []
    for _ in range(DEEPEST):
        nested = [nested]
    for refused in (value, nested):
        with pytest.raises(JsonError):
            write_json(refused)


OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)
WORDS = st.text(st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=20)


@given(WORDS, OBJECTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_the_first_object_of_an_answer_is_found_between_other_words(before, value, after):
    assert read_first_object(before + write_json(value) + after) == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('Either {"a": 1} or {"a": 2}.', {"a": 1}),
        ('In a set {x} I found ```json\n{"a": {"b": []}}\n```', {"a": {"b": []}}),
    ],
)
def test_the_first_of_several_objects_is_taken_and_other_braces_are_skipped(answer, value):
    assert read_first_object(answer) == value


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I do not know.", "there is no JSON object"),
        ('{"a": 1', "the object is not JSON"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a":' * 100_000, "nested more than"),
        ("{" * 100_000, "the object is not JSON"),
    ],
)
def test_an_answer_without_a_strict_object_is_refused(answer, why):
    with pytest.raises(JsonError, match=why):
        read_first_object(answer)
