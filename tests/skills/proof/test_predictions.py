"""Predictions: which answers satisfy them, and how arguments are converted to JSON and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.prediction import MOST_PREDICTIONS, Prediction, parse_predictions
from acquired_skills.proof.array_values import can_be_stated
from acquired_skills.proof.boundary_calls import boundary_calls
from acquired_skills.proof.json_calls import JsonCalls, as_json
from acquired_skills.proof.prediction_checks import equals, satisfies

pytestmark = pytest.mark.spec("GATE-1")
COUNTED, ONE_ROW = {"range_index": [0, 2, 1, None]}, {"range_index": [0, 1, 1, None]}
OF_TEXTS = {"column": ["string", ["a"]]}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda each: {"tuple": each})
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(
            lambda each: {"dict": [[*kv] for kv in each.items()]}
        )
    ),
    max_leaves=8,
)


def satisfied(value: Any, **checks: Any) -> bool:
    return satisfies({"value": value}, Prediction({}, checks))


@given(VALUES)
def test_a_value_equals_its_own_json(value: Any) -> None:
    assert equals(value, as_json(value))


@given(VALUES, VALUES)
def test_values_with_different_json_are_different(one: Any, other: Any) -> None:
    if type(one) is type(other) and not isinstance(one, float | list | dict) and one != other:
        assert not equals(one, as_json(other))


def test_a_result_is_compared_by_value_and_not_by_the_type_of_its_container() -> None:
    assert satisfied({"tuple": [1, {"set": [2, 3]}]}, result=[1, [3, 2]])
    assert satisfied({"dict": [[1, "a"]]}, result={"1": "a"})
    assert satisfied(0.1 + 0.2, result=0.3)
    assert satisfied(3.0, result=3)
    assert not satisfied([1, 2], result=[2, 1])
    assert not satisfied(1, result=True)
    assert not satisfied(0, result=None)


@pytest.mark.parametrize(
    ("value", "result", "is_equal"),
    [
        (1_700_000_000_123, 1_700_000_000_124, False),
        (1_700_000_000.0, 1_700_000_001, False),
        (12_345_678, 12_345_678.0, True),
        (2**60 + 1, 2**60, False),
        (1.000_000_1, 1, True),
        (1.001, 1, False),
        (1.6e-19, 3.2e-19, False),
        (1.602e-19, 1.602_000_1e-19, True),
        (5.6e-17, 0, True),  # the rounding error of 0.1 + 0.2 - 0.3
        (1e-6, 0, False),
    ],
)
def test_whole_numbers_are_compared_exactly_and_others_relatively(value: float, result: float, is_equal: bool) -> None:
    assert satisfied(value, result=result) is is_equal


@pytest.mark.parametrize(
    ("value", "can_be"),
    [
        ([1, {"tuple": [{"array": ["<i8", [1], [1]]}]}], True),
        ({"dict": [["at", {"timestamp": ["2024-01-01", None, "ns"]}]]}, False),
        ({"array": ["<M8[ns]", [1], [0]]}, False),
        ({"object": ["Point", {"array": 1}]}, True),
        ({"array": ["<i8", [10**12], [1]]}, False),
        ({"array": ["<i8", [10**12, 0], []]}, False),
        ({"array": ["<i8", [-1, -1], [1]]}, False),
        ({"array": ["<i8", ["1"], [1]]}, False),
        ({"range_index": [0, 10**30, 1, None]}, False),
        ({"range_index": [0, 10**9, 1, None]}, False),
        ({"range_index": [0, 1, 0, None]}, False),
        ({"series": [{"categories": [{"range_index": [0, 1, 1, None]}, [5], True]}, 3, None]}, False),
        ({"frame": [[], {"index": [OF_TEXTS, None, None]}, 3]}, False),
        ({"scalar": ["<i8"]}, False),
    ],
)
@pytest.mark.timeout(60)
def test_no_question_is_asked_whose_answer_json_cannot_state(value: Any, can_be: bool) -> None:
    assert can_be_stated(value) is can_be


@pytest.mark.parametrize(
    ("value", "result", "other"),
    [
        ({"counter": [["a", 2]]}, {"a": 2}, {"a": 1}),
        ({"ordered": [["a", 2]]}, {"a": 2}, {"b": 2}),
        ({"defaultdict": ["list", [["a", [1]]]]}, {"a": [1]}, {"a": []}),
        ({"dict": [[{"tuple": [1, True]}, 0]]}, {"1,true": 0}, {"1": 0}),
        ({"dict": [[True, 0], [None, 1]]}, {"true": 0, "None": 1}, {"1": 0, "None": 1}),
        ({"deque": [[1, 2], None]}, [1, 2], [2, 1]),
        ({"range": [0, 3, 1]}, [0, 1, 2], [0, 1]),
        ({"object": ["Point", {"x": 1, "y": 2}]}, [1, 2], [1, 3]),
        ({"timedelta": [1, 7200, 0]}, "P1DT2H", "P1DT3H"),
        ({"timedelta": [1, 7200, 0]}, 93600, 93601),
        ({"datetime": "2024-02-29T00:00:00+00:00"}, "2024-02-29T00:00:00Z", "2024-02-28T00:00:00Z"),
        ({"bytes": "6162"}, "ab", "6162"),
        ({"complex": [1.0, -2.0]}, "1-2j", "1+2j"),
        ({"enum": ["Colour", "RED", "r"]}, "r", "b"),
        ({"enum": ["Colour", "RED", "r"]}, "RED", "GREEN"),
        ({"scalar": ["<i8", 3]}, 3, 4),
        ({"array": ["<i8", [2, 2], [1, 2, 3, 4]]}, [[1, 2], [3, 4]], [1, 2, 3, 4]),
        ({"series": [{"array": ["<f8", [2], [1.5, {"float": "nan"}]]}, COUNTED, "x"]}, [1.5, None], [1.5, 0]),
        ({"series": [{"array": ["<i8", [1], [7]]}, {"index": [OF_TEXTS, None, None]}, None]}, {"a": 7}, [7]),
        ({"frame": [[OF_TEXTS], {"index": [OF_TEXTS, None, None]}, ONE_ROW]}, [{"a": "a"}], [{"a": "b"}]),
    ],
)
def test_a_result_is_predicted_in_the_form_that_an_agent_receives(value: Any, result: Any, other: Any) -> None:
    assert satisfied(value, result=result)
    assert not satisfied(value, result=other)


@pytest.mark.parametrize(
    ("value", "true", "false"),
    [
        ([1, 2, 2], {"sorted": True}, {"permutation_of": [1, 2, 3]}),
        ([2, 1], {"permutation_of": [1, 2]}, {"sorted": True}),
        (3.14159, {"close_to": 3.1416}, {"close_to": 3.2}),
        (7, {"between": [7, 9]}, {"between": [8, 9]}),
        ("abc", {"length": 3, "contains": "bc"}, {"contains": "x"}),
        ({"dict": [["a", 1]]}, {"contains": "a"}, {"contains": 1}),
        ({"counter": [["a", 1]]}, {"contains": "a", "length": 1}, {"contains": "b"}),
        ("b", {"one_of": ["a", "b"]}, {"one_of": []}),
    ],
)
def test_each_check_accepts_and_rejects(value: Any, true: dict[str, Any], false: dict[str, Any]) -> None:
    assert satisfied(value, **true)
    assert not satisfied(value, **false)


def test_an_exception_is_predicted_by_the_name_of_its_type_or_a_base() -> None:
    answer = {"raised": {"types": ["json.decoder:JSONDecodeError", "builtins:ValueError", "builtins:Exception"]}}
    assert satisfies(answer, Prediction({}, {"raises": "JSONDecodeError"}))
    assert satisfies(answer, Prediction({}, {"raises": "ValueError"}))
    assert not satisfies(answer, Prediction({}, {"raises": "KeyError"}))
    assert not satisfies(answer, Prediction({}, {"result": None}))


@pytest.mark.parametrize("forged", [{}, {"value": {"dict": [1]}}, {"value": {"set": 3}}, {"raised": 1}, {"lost": "x"}])
def test_a_malformed_answer_satisfies_no_prediction(forged: dict[str, Any]) -> None:
    checks: list[dict[str, Any]] = [{"result": {}}, {"raises": "E"}, {"length": 1}, {"sorted": True}, {"contains": 1}]
    assert not any(satisfies(forged, Prediction({}, each)) for each in checks)


def test_arguments_become_json_and_the_same_call_again() -> None:
    calls = [{"arguments": [{"tuple": [1, "a"]}, {"dict": [[1, {"date": "2026-01-02"}]]}], "named": {"flag": True}}]
    of = JsonCalls(["pair", "days", "flag"], calls)
    assert of.arguments(calls[0]) == {"pair": [1, "a"], "days": {"1": "2026-01-02"}, "flag": True}
    assert of.call({"pair": [2, "b"], "days": {}, "flag": False}) == {
        "arguments": [{"tuple": [2, "b"]}, {"dict": []}],
        "named": {"flag": False},
    }


def test_no_question_is_asked_about_a_call_that_json_cannot_represent() -> None:
    of = JsonCalls(["data"], [{"arguments": [1], "named": {}}])
    assert of.arguments({"arguments": [{"bytes": "00"}], "named": {}}) is None
    assert of.arguments({"arguments": [1], "named": {}, "files": {"a": "b"}}) is None
    assert (
        of.arguments({"arguments": [{"tuple": [1]}], "named": {}}) is None
    )  # a conversion to JSON and back would give a list


@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(0, 40))
def test_boundary_calls_are_new_distinct_and_bounded(arguments: list[Any], most: int) -> None:
    call = {"arguments": arguments, "named": {}}
    found = boundary_calls([call], most)
    texts = [json.dumps(each) for each in found]  # -0.0 equals 0.0, but is another boundary
    assert len(set(texts)) == len(texts) <= most
    assert json.dumps(call) not in texts


def test_boundary_calls_include_empty_single_negative_tied_and_long_values() -> None:
    found = [each["arguments"][0] for each in boundary_calls([{"arguments": [[3, 5]], "named": {}}], 40)]
    assert all(each in found for each in ([], [3], [3, 3], [5, 3], [0, 5], [3, 5, 3]))
    assert max(map(len, found)) >= 12
    numbers = [each["arguments"][0] for each in boundary_calls([{"arguments": [5], "named": {}}], 40)]
    assert {0, 1, -5, -1} <= set(numbers)
    texts = [each["arguments"][0] for each in boundary_calls([{"arguments": ["123"], "named": {}}], 40)]
    assert {"", "-123", "+123", " 123 ", "1.5"} <= set(texts)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"result": 1}, "has no `arguments`"),
        ({"arguments": {}}, "predicts nothing"),
        ({"arguments": {}, "equals": 1}, "`equals` is not a check"),
        ({"arguments": {}, "between": [1]}, "`between`"),
        ({"arguments": {}, "sorted": False}, "`sorted`"),
        ({"arguments": {}, "result": "x" * 30_000}, "too long"),
        (7, "has no `arguments`"),
    ],
)
def test_an_invalid_prediction_is_refused_with_what_to_change(wrong: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Prediction.parse(wrong)


def test_the_number_of_predictions_is_limited() -> None:
    with pytest.raises(ValueError, match="at most"):
        parse_predictions([{"arguments": {}, "result": 1}] * (MOST_PREDICTIONS + 1))


def test_data_that_is_nested_too_deeply_cannot_be_stated() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = {"array": ["|O", [1], [value]]}
    assert not can_be_stated(value)
    assert not satisfied(value, result=[1])


def test_a_member_of_an_enumeration_is_asked_about_by_its_value() -> None:
    red = {"enum": ["Colour", "RED", "r"]}
    calls = JsonCalls(["colour"], [{"arguments": [red], "named": {}}])
    assert calls.arguments({"arguments": [red], "named": {}}) == {"colour": "r"}
    assert calls.call({"colour": "r"}) == {"arguments": [red], "named": {}}
    assert calls.call({"colour": "GREEN"})["arguments"] == [{"enum": ["Colour", "GREEN"]}]


@pytest.mark.parametrize("key", ["--5", "5-", "", "²", "9" * 5_000])
def test_keys_that_are_no_integers_stay_texts(key: str) -> None:
    calls = JsonCalls(["points"], [{"arguments": [{"dict": [[5, 1]]}], "named": {}}])
    assert calls.call({"points": {key: 1, "-5": 2}})["arguments"] == [{"dict": [[key, 1], [-5, 2]]}]


def test_an_integer_beyond_all_floats_stays_one() -> None:
    calls = JsonCalls(["x"], [{"arguments": [1.5], "named": {}}])
    assert calls.call({"x": 10**400})["arguments"] == [{"int": hex(10**400)}]
