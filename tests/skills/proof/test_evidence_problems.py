"""What a refusal says about evidence that is missing, although the tests kill most mutants."""

from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import Question
from acquired_skills.proof.evidence_problems import evidence_problems
from acquired_skills.proof.questions import Evidence
from acquired_skills.proof.surviving_mutants import Survivors
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("GATE-2")
KILLED = {number: number > 0 for number in range(20)}  # all but one


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"survivors": Survivors(differing={0: {3: {"value": 1}}})},
            "kill 19 of 20 mutants, and at least one of the others changes the result of a call below.",
        ),
        (
            {"survivors": Survivors(differing={1: {3: {"value": 1}}})},
            "kill 19 of 20 mutants, but state too few results.",
        ),
        (
            {"untested": ("width",)},
            "kill 19 of 20 mutants. No test passes `width`, so nothing shows what happens then.",
        ),
    ],
)
def test_a_refusal_names_the_reason_for_its_question(more: dict[str, Any], says: str) -> None:
    found = Evidence(KILLED, 20, 19, questions=(Question({"number": 7}),), enough=False, **more)
    (problem,) = evidence_problems(proposal(), found, [], Effort())
    assert f"The tests {says} Work out" in problem.text
