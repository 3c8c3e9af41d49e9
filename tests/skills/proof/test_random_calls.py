"""Random calls change several arguments at once, and those with unusual results are made to mutants (GATE-1)."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.random_calls import random_calls, with_different_answers
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal
from tests.skills.proof.test_surviving_mutants import CALLS

pytestmark = pytest.mark.spec("GATE-1")


@given(CALLS, st.integers(0, 50), st.integers())
def test_they_are_new_bounded_of_the_same_form_and_the_same_for_the_same_seed(
    calls: list[dict[str, Any]], most: int, seed: int
) -> None:
    found = random_calls(calls, most, seed)
    assert found == random_calls(calls, most, seed)
    texts = [json.dumps(each, sort_keys=True) for each in found]
    assert len(set(texts)) == len(texts) <= most
    assert not set(texts) & {json.dumps(each, sort_keys=True) for each in calls}
    forms = [(len(each["arguments"]), sorted(each["named"])) for each in calls]
    assert all((len(each["arguments"]), sorted(each["named"])) in forms for each in found)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, [1.5, 10**400], [float("nan"), 1]])
def test_numbers_that_no_code_of_ours_sends_do_no_harm(value: object) -> None:
    assert isinstance(random_calls([{"arguments": [value, 1], "named": {}}], 20, 1), list)


def test_two_lists_change_together_and_keep_their_length() -> None:
    """Merging sorted lists takes another path when all items of one are smaller than all items of the other."""
    found = random_calls([{"arguments": [[1, 12, 15], [2, 13, 17], 3], "named": {}}], 200, 1)
    pairs = [each["arguments"][:2] for each in found if [len(list_) for list_ in each["arguments"][:2]] == [3, 3]]
    assert any(max(one) < min(other) for one, other in pairs)
    assert any(max(other) < min(one) for one, other in pairs)


def test_calls_with_rare_results_are_chosen_first_and_those_that_raise_are_not() -> None:
    calls = [{"arguments": [number], "named": {}} for number in range(30)]
    answers: list[dict[str, Any]] = [{"value": number == 17} if number else {"raised": {}} for number in range(30)]
    chosen = with_different_answers(calls, answers, 4)
    assert [each["arguments"][0] for each in chosen] == [17, 1, 2, 3]
    assert with_different_answers(calls, [], 4) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.spec("SKILL-6")
async def test_a_change_that_only_a_rare_combination_shows_becomes_a_question(box: NamespaceSandbox) -> None:
    """The lists of the test have items in common, so no call with one other argument reaches the first condition."""
    offered = replace(
        proposal(),
        code=(
            'def add_one(one: list[int], other: list[int]) -> int:\n    """Tell which list is smaller.\n\n    Args:\n'
            '        one: Numbers.\n        other: As many numbers.\n    """\n'
            "    if len(one) == len(other) == 4 and max(one) + 3 < min(other):\n        return 1\n    return 0\n"
        ),
        tests="from add_one import add_one\n\n\ndef test_it():\n    assert add_one([1, 9, 4, 7], [2, 8, 3, 6]) == 0\n",
    )
    with pytest.raises(SkillRefused) as refused:
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=replace(Effort(), similar_calls_s=20.0))
    lists = [(each.arguments["one"], each.arguments["other"]) for each in refused.value.questions]
    assert any(len(one) == len(other) == 4 and max(one) + 3 < min(other) for one, other in lists)
