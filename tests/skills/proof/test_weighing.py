"""How the predictions of an author are weighed, without boxes: what is enough, and what a refusal says."""

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, ProposalProblem
from acquired_skills.proof.evidence_problems import evidence_problems
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.predictions import compare_predictions
from acquired_skills.proof.questions import MOST_UNSPECIFIED, Evidence, weigh
from acquired_skills.proof.reference_answers import ComparedReference
from acquired_skills.proof.surviving_mutants import Survivors

pytestmark = pytest.mark.spec("GATE-1")
EFFORT = Effort()
NODE = ast.parse("2 * n", mode="eval").body
MUTANTS = tuple(Mutant(line, "2 * n", f"{line} * n", NODE, NODE, lambda _: None) for line in range(20))
NEARLY_ALL = {number: number < 18 for number in range(20)}
ALL = dict.fromkeys(range(20), True)


def call(number: Any) -> dict[str, Any]:
    return {"arguments": [number], "named": {}}


def doubled(number: int) -> Prediction:
    return Prediction({"n": number}, {"result": 2 * number})


def weighed(
    killed: Mapping[int, bool],
    expected: Sequence[Prediction] = (),
    *,
    confirmed: Sequence[Prediction] = (),
    earlier: Sequence[Prediction] = (),
    unanswered: Collection[int] = (),
) -> tuple[Evidence, list[ProposalProblem]]:
    """Weigh the evidence for code that doubles numbers. Calls from 10 to 19 show the mutants that no test kills."""
    tested, new = [call(number) for number in (1, 2, 3)], [call(number) for number in range(10, 20)]
    calls, offered = (
        JsonCalls(["n"], tested),
        Proposal("f", "Doubles.", "", "", expected=(*expected,), confirmed=(*confirmed,)),
    )
    predicted = [calls.call(each.arguments) for each in offered.predictions]
    made = [*predicted, *new, *tested]
    truth = {
        at: {"value": 2 * each["arguments"][0]}
        for at, each in enumerate(made)
        if each["arguments"][0] not in unanswered
    }
    shown = {at: {"value": -1} for at in truth if made[at]["arguments"][0] >= 10}
    survivors = Survivors(made, len(predicted), len(new), truth, {n: shown for n, each in killed.items() if not each})
    found = weigh(
        JudgedTests(calls=tested, mutants=killed),
        survivors,
        made=len(MUTANTS),
        predictions=offered.predictions,
        earlier=earlier,
        calls=calls,
        effort=EFFORT,
        reference=ComparedReference(),
    )
    return found, list(evidence_problems(offered, found, MUTANTS, EFFORT))


def test_an_agreed_prediction_for_a_call_that_shows_the_surviving_mutants_is_enough() -> None:
    assert not weighed(NEARLY_ALL)[0].enough
    found, problems = weighed(NEARLY_ALL, [doubled(12)])
    assert (found.enough, problems) == (True, [])


def test_stating_for_every_question_that_any_result_is_acceptable_is_not_enough() -> None:
    any_result = [Prediction({"n": number}, {"unspecified": True}) for number in range(10, 20)]
    found, problems = weighed(NEARLY_ALL, any_result)
    assert not found.enough
    assert f"10 predictions are `unspecified`; at most {MOST_UNSPECIFIED} are allowed" in problems[0].text


@pytest.mark.spec("SKILL-9")
def test_a_new_version_must_still_answer_what_was_confirmed() -> None:
    assert weighed(ALL, confirmed=[doubled(15)])[1] == []
    found, (problem,) = weighed(ALL, confirmed=[doubled(15)], unanswered={15})
    assert found.enough
    assert "`30` was predicted for `f(n=15)`, and the current version agrees" in problem.text
    assert "varies or takes too long" in problem.text


def test_a_disputed_prediction_that_is_changed_proves_nothing_however_the_call_is_spelled() -> None:
    pair = {"arguments": [{"set": [3, 4]}], "named": {}}
    calls = JsonCalls(["items"], [pair])
    survivors = Survivors([pair], 1, 0, {0: {"value": True}})
    earlier = [Prediction({"items": [3, 4]}, {"result": False})]
    for items in ([3, 4], [4, 3]):
        found = compare_predictions([Prediction({"items": items}, {"result": True})], survivors, earlier, calls)
        assert found.changed == (0,)
