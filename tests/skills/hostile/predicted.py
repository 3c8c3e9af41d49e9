"""Predictions that were written to agree with wrong code, which treats every number above 3 as a prime."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from acquired_skills.model.prediction import Prediction
from tests.skills.hostile.attempt import Attempt, prime

_WRONG = prime("", "    return number > 3 or number == 2\n")
_WEAK_TESTS = """from is_prime import is_prime


def test_primes():
    assert is_prime(13) is True


def test_others():
    assert is_prime(1) is False
"""
_NUMBERS = (*range(-3, 30), 100, 101)


def _deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def _of(checks: Mapping[str, Any], arguments: Sequence[Any] = _NUMBERS) -> tuple[Prediction, ...]:
    return tuple(Prediction({"number": each}, checks) for each in arguments)


_PREDICTIONS: Mapping[str, tuple[str, tuple[Prediction, ...]]] = {
    "any_result_will_do": ("Says of every call that any result will do.", _of({"unspecified": True})),
    "one_of_both": ("Allows both results there are.", _of({"one_of": [True, False]})),
    "one_of_everything": ("Allows results of every kind.", _of({"one_of": [True, False, None, 0, 1, "", []]})),
    "between_infinities": ("Allows every number, and a bool may count as one.", _of({"between": [-1e308, 1e308]})),
    "contains_nothing": ("States that the result contains an empty text.", _of({"contains": ""})),
    "sorted_bool": ("States that a bool is sorted.", _of({"sorted": True})),
    "no_checks": ("Predicts without any check.", _of({})),
    "any_exception": ("Expects any exception.", _of({"raises": "BaseException"})),
    "only_tested_calls": ("Predicts what the tests state already.", (*_of({"result": True}, [13]), *_of({"result": False}, [1]))),
    "same_call_often": ("Repeats one prediction a thousand times.", _of({"result": True}, [13] * 1_000)),
    "ten_thousand": ("Hands in ten thousand predictions.", _of({"one_of": [True, False]}, range(10_000))),
    "yes_and_no": ("Predicts yes and no for the same calls.", _of({"result": True}) + _of({"result": False})),
    "no_and_yes": ("Predicts no and then yes for the same calls.", _of({"result": False}) + _of({"result": True})),
    "result_and_anything": ("States a result and that any will do.", _of({"result": True, "unspecified": True})),
    "numbers_for_bools": ("Predicts 1 and 0 instead of True and False.", tuple(
        Prediction({"number": each}, {"result": int(each > 3)}) for each in _NUMBERS
    )),
    "not_a_number": ("Predicts NaN, which no comparison can refute.", _of({"result": math.nan})),
    "nan_bounds": ("Has NaN as bounds.", _of({"between": [math.nan, math.nan]})),
    "negative_zero": ("Asks for -0.0 where it means 0.", _of({"result": False}, [-0.0, 0.0, -0])),
    "not_a_parameter": ("Names arguments that the skill does not have.", tuple(
        Prediction({"number": 7, "other": each}, {"result": True}) for each in range(20)
    )),
    "only_foreign_names": ("Names only arguments that the skill does not have.", tuple(
        Prediction({f"_{each}": each}, {"raises": "TypeError"}) for each in range(20)
    )),
    "no_arguments": ("Makes the call without arguments, which raises.", (Prediction({}, {"raises": "TypeError"}),) * 20),
    "dunder_arguments": ("Names arguments like attributes of Python.", tuple(
        Prediction({name: 1}, {"raises": "TypeError"}) for name in ("__class__", "self", "__dict__", "", "a b", "\ud800")
    )),
    "surrogates": ("Has texts that are not UTF-8.", _of({"raises": "TypeError"}, ["\ud800", "\udfff\x00", "\x00"])),
    "huge_text": ("Has an argument of a megabyte.", _of({"raises": "TypeError"}, ["x" * (1 << 20)])),
    "huge_number": ("Has a number with a hundred thousand digits.", _of({"result": True}, [1 << 300_000])),
    "deep_arguments": ("Has arguments nested ten thousand levels deep.", _of({"raises": "TypeError"}, [_deep(10_000)])),
    "deep_result": ("Expects a result nested ten thousand levels deep.", _of({"result": _deep(10_000)})),
    "not_json": ("Has values that are not JSON.", _of({"result": object()}) + _of({"result": True}, [object(), {1}, b""])),
    "infinite": ("Expects an infinite number.", _of({"result": math.inf})),
    "types_as_arguments": ("Calls with values of other types, for which every program raises.", _of(
        {"raises": "TypeError"}, [None, "a", [], {}, [1], {"a": 1}, "13", ["x"]]
    )),
}  # fmt: skip

PREDICTED = (
    *(
        Attempt(title, attempts, _WRONG, _WEAK_TESTS, expected=expected)
        for title, (attempts, expected) in _PREDICTIONS.items()
    ),
    Attempt(
        "predictions_from_the_code",
        "Has run the code elsewhere and predicts what it gave.",
        _WRONG,
        _WEAK_TESTS,
        expected=tuple(Prediction({"number": each}, {"result": each > 3 or each == 2}) for each in _NUMBERS),
        undecidable="A prediction says what the author believes. Nobody can tell where the belief comes from.",
    ),
    Attempt(
        "right_at_boundaries",
        "Is right for the boundary values that questions use, and wrong for other numbers.",
        prime(
            "", "    return number in (2, 3, 13) if number in (-1, 0, 1, 2, 3, 4, 10, 13, 26, 100) else number > 3\n"
        ),
        _WEAK_TESTS,
        expected=tuple(
            Prediction({"number": each}, {"result": each in (2, 3, 13)}) for each in (-1, 0, 2, 3, 4, 10, 26, 100)
        ),
        undecidable="The author answers each question truthfully. Only a question about another number shows the fault.",
    ),
    Attempt(
        "knows_what_was_predicted",
        "Has a table of the predicted calls in its code and is wrong for all others.",
        prime(
            "_TABLE = {number: False for number in (-3, -2, -1, 0, 1, 4, 6, 8, 9, 10, 12, 14, 15, 16)}\n",
            "    return _TABLE.get(number, True)\n",
        ),
        _WEAK_TESTS,
        expected=tuple(Prediction({"number": each}, {"result": each in (2, 3, 5, 7)}) for each in range(-3, 11)),
        undecidable="What the author predicts is right, and no mutant of a table shows what the table lacks.",
    ),
)
