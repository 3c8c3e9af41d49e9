"""The output of a box is validated before it is used."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.proof.answers import identical_answer, same_answer
from acquired_skills.proof.facts import facts_of, is_call

pytestmark = pytest.mark.spec("SKILL-7")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, list):
        items = [shuffled(each, chance) for each in value]
        chance.shuffle(items)
        return items
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in sorted(value, key=lambda _: chance.random())}
    return value


@given(JSON, st.randoms(use_true_random=False))
def test_answers_are_compared_regardless_of_the_order_of_items(value: Any, chance: random.Random) -> None:
    assert same_answer({"value": value}, {"value": shuffled(value, chance)})
    assert not same_answer({"value": value}, {"value": [value, "more"]})


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"arguments": 1, "named": {}},
        {"arguments": [], "named": []},
        {"arguments": [], "named": {}, "files": 1},
        {"arguments": [], "named": {}, "place": {}},
    ],
)
def test_output_with_a_malformed_call_is_rejected(forged: dict[str, Any]) -> None:
    assert not is_call(forged)
    report = {
        "phase": "tests",
        "runs": [],
        "observations": {"replay_calls": [{"test": "skill/t.py::test_it", "call": forged}]},
    }
    with pytest.raises(ValueError, match="it is not a call"):
        facts_of(report)
    report["observations"]["replay_calls"][0]["call"] = {"arguments": [], "named": {}}  # type: ignore[index]
    assert facts_of(report)


@pytest.mark.parametrize(
    ("one", "other", "identical"),
    [
        ([1, 2], [2, 1], False),
        ({"tuple": [1, 2]}, {"tuple": [2, 1]}, False),
        ({"dict": [["a", [1, 2]], ["b", 0]]}, {"dict": [["b", 0], ["a", [1, 2]]]}, True),
        ({"dict": [["a", [1, 2]]]}, {"dict": [["a", [2, 1]]]}, False),
        ({"ordered": [["a", 1], ["b", 0]]}, {"ordered": [["b", 0], ["a", 1]]}, False),
        ({"defaultdict": ["int", [["a", 1], ["b", 0]]]}, {"defaultdict": ["int", [["b", 0], ["a", 1]]]}, True),
        ([{"counter": [["a", 1], ["b", 2]]}], [{"counter": [["b", 2], ["a", 1]]}], True),
    ],
)
def test_identical_answers_have_their_items_in_the_same_order_except_those_of_dicts(
    one: object, other: object, identical: bool
) -> None:
    assert identical_answer({"value": one}, {"value": other}) is identical
    assert same_answer({"value": one}, {"value": other})
