"""Mutants that stay within the tolerance of the tests do not count (SKILL-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.proof.tolerated_mutants import LARGEST, answer_difference, tolerated_mutants

pytestmark = pytest.mark.spec("SKILL-6")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def value(number: object) -> dict[str, object]:
    return {"value": number}


def test_a_mutant_within_the_tolerance_that_the_tests_show_does_not_count() -> None:
    truth = {0: value(100.0), 1: value([1.0, 50.0]), 2: value(7.0)}
    near = {2: value(7.001), 0: value(100.01)}
    assert tolerated_mutants(truth, {5: near}, tested=[2]) == {5}


def test_a_mutant_beyond_that_tolerance_counts() -> None:
    truth = {0: value(100.0), 2: value(7.0)}
    assert tolerated_mutants(truth, {5: {2: value(7.001), 0: value(100.9)}}, tested=[2]) == frozenset()
    assert tolerated_mutants(truth, {5: {2: value(7.5)}}, tested=[2]) == frozenset()  # such a tolerance is too large


def test_a_mutant_that_equals_the_skill_in_all_tests_shows_no_tolerance() -> None:
    truth = {0: value(100.0), 2: value(7.0)}
    assert tolerated_mutants(truth, {5: {0: value(100.0001)}}, tested=[2]) == frozenset()


def test_anything_but_a_float_is_never_within_a_tolerance() -> None:
    truth = {0: value(100), 1: value("a"), 2: value([1.0]), 3: {"raised": {"types": [], "args": [], "text": ""}}}
    for at, other in ((0, 101), (0, 100.0), (1, "b"), (2, [1.0, 1.0]), (3, 1.0)):
        assert answer_difference(truth[at], value(other)) == float("inf")


@given(FLOATS, FLOATS)
def test_the_difference_is_symmetric_and_zero_only_between_equal_numbers(one: float, other: float) -> None:
    found = answer_difference(value([one]), value([other]))
    assert found == answer_difference(value([other]), value([one]))
    assert (found == 0.0) == (one == other) or abs(one - other) < LARGEST * max(abs(one), abs(other))
