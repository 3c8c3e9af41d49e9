"""Mutants that stay within the tolerance of the tests do not count (SKILL-6)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.proof.answers import value_difference
from acquired_skills.proof.tolerated_mutants import tolerated_mutants

pytestmark = pytest.mark.spec("SKILL-6")


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
        assert value_difference(truth[at], value(other), lambda *_: 0.0) == float("inf")


@given(st.floats(), st.floats())
def test_only_finite_numbers_that_are_near_each_other_are_tolerated(one: float, other: float) -> None:
    near = {2: value(7.001), 0: value([other])}
    tolerated = 5 in tolerated_mutants({0: value([one]), 2: value(7.0)}, {5: near}, tested=[2])
    assert tolerated == (one == other or math.isclose(one, other, rel_tol=0.001 / 7.001 * (1 + 1e-9)))
