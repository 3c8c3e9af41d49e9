"""Finds the mutants whose results differ from the skill's by no more than the tests tolerate (SKILL-6).

A test with `pytest.approx` or `abs(found - expected) < 0.01` accepts results that are nearly right. Mutants that stay
within this tolerance for every call are as good as the skill in the eyes of the author, so they do not count.
"""

import math
from collections.abc import Collection, Mapping

from acquired_skills.proof.answers import Data, value_difference

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
    differences = {
        number: {at: value_difference(truth[at], answer, _relative_difference) for at, answer in answers.items()}
        for number, answers in differing.items()
    }
    by_call = [pair for found in differences.values() for pair in found.items()]
    tolerance = max((each for at, each in by_call if at in tested and each <= LARGEST), default=0.0)
    return frozenset(n for n, found in differences.items() if 0.0 < max(found.values(), default=0.0) <= tolerance)


def _relative_difference(one: float, other: float) -> float:
    if one == other:
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other))
