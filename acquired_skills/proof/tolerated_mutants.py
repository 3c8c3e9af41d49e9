"""Finds the mutants whose results differ from the skill's by no more than the tests tolerate (SKILL-6).

A test with `pytest.approx` or `abs(found - expected) < 0.01` accepts results that are nearly right. Mutants that stay
within this tolerance for every call are as good as the skill in the eyes of the author, so they do not count.
"""

from collections.abc import Collection, Mapping
from typing import Any

from acquired_skills.proof.answers import Data

LARGEST = 0.01  # a test that tolerates a larger relative difference is considered weak instead


def tolerated_mutants(
    truth: Mapping[int, Data], differing: Mapping[int, Mapping[int, Data]], tested: Collection[int]
) -> frozenset[int]:
    """Return the numbers of the mutants within the tolerance of the tests.

    The tolerance is the largest relative difference, up to `LARGEST`, that the tests accept from any of these mutants.

    Args:
        truth: The skill's answers, by the index of the call.
        differing: For each mutant that passes the tests, its answers that differ from the skill's, by the index of the
            call.
        tested: The indexes of the calls of the tests.
    """
    largest = {
        number: max((answer_difference(truth[at], answer) for at, answer in answers.items()), default=0.0)
        for number, answers in differing.items()
    }
    accepted = [
        difference
        for answers in differing.values()
        for at, answer in answers.items()
        if at in tested and (difference := answer_difference(truth[at], answer)) <= LARGEST
    ]
    tolerance = max(accepted, default=0.0)
    return frozenset(number for number, difference in largest.items() if 0.0 < difference <= tolerance)


def answer_difference(one: Data, other: Data) -> float:
    """Return the largest relative difference between the numbers of two answers.

    The result is infinite if the answers differ in anything but floats.
    """
    if "value" not in one or "value" not in other:
        return float("inf")
    return _difference(one["value"], other["value"])


def _difference(one: Any, other: Any) -> float:
    if isinstance(one, float) and isinstance(other, float):
        scale = max(abs(one), abs(other))
        return 0.0 if one == other else abs(one - other) / scale
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(_difference, one, other), default=0.0)
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((_difference(one[name], other[name]) for name in one), default=0.0)
    return 0.0 if type(one) is type(other) and one == other else float("inf")
