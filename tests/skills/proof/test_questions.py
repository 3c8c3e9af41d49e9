"""Admission asks the author to predict results without revealing them, and compares the predictions with the code."""

from dataclasses import replace
from typing import Any

import pytest

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.admission_report import agreed_predictions, open_questions, report_summary
from acquired_skills.proof.questions import MOST_QUESTIONS, questions_needed
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-1")]
BODY = "if number > 100:\n        return 100\n    return number + 1"
WRONG = BODY.replace("> 100", ">= 100")  # returns 100 for 100
ROUNDS = 5


def right(number: int) -> int:
    """Return the result that the author intends."""
    return 100 if number > 100 else number + 1


def predicted(number: int, **checks: Any) -> Prediction:
    return Prediction({"number": number}, checks or {"result": right(number)})


async def proposed(box: NamespaceSandbox, offered: Proposal, **more: Any) -> Admission | SkillRefused:
    try:
        return await admit(ParsedProposal.parse(offered), box, seed=1, effort=UNHURRIED, **more)
    except SkillRefused as refused:
        return refused


async def refused(box: NamespaceSandbox, offered: Proposal, **more: Any) -> SkillRefused:
    found = await proposed(box, offered, **more)
    assert isinstance(found, SkillRefused)
    return found


async def answered(box: NamespaceSandbox, offered: Proposal) -> tuple[Admission | SkillRefused, int]:
    """Propose, answer each question correctly, and propose again. Return the result and the number of answers."""
    expected: dict[int, Prediction] = {}
    for _ in range(ROUNDS):
        found = await proposed(box, replace(offered, expected=tuple(expected.values())))
        if isinstance(found, Admission) or any(each.disputed for each in found.questions):
            break
        expected |= {each.arguments["number"]: predicted(each.arguments["number"]) for each in found.questions}
    return found, len(expected)


async def test_correct_code_with_weak_tests_is_admitted_once_its_questions_are_answered(box: NamespaceSandbox) -> None:
    found, asked = await answered(box, proposal(body=BODY))
    assert isinstance(found, Admission)
    assert 0 < asked <= MOST_QUESTIONS
    assert found.report["predictions"] > 0
    assert len(agreed_predictions(found.report)) == found.report["predictions"]
    assert found.report["open_questions"] == 0


async def test_wrong_code_with_weak_tests_is_refused_by_a_truthful_author(box: NamespaceSandbox) -> None:
    found, _ = await answered(box, proposal(body=WRONG))
    assert isinstance(found, SkillRefused)
    (disputed,) = found.disputed
    assert disputed.arguments == {"number": 100}
    assert "You expect `101` from `add_one(number=100)`; the code gives another result." in str(found)


async def test_the_same_proposal_gets_the_same_questions_which_do_not_reveal_results(
    box: NamespaceSandbox,
) -> None:
    first, again = [await refused(box, proposal(body=BODY)) for _ in range(2)]
    assert first.questions == again.questions
    assert len(first.questions) <= 5
    assert "101" not in str(first).replace('{"number": 101}', "")


async def test_a_changed_prediction_is_not_evidence(box: NamespaceSandbox) -> None:
    """After a dispute over 100, the author adopts the result of the code."""
    pasted = proposal(body=WRONG, expected=(predicted(100, result=100),))
    found = await refused(box, pasted, disputed=[predicted(100)])
    assert {"number": 100} not in [each.arguments for each in found.questions]
    assert found.questions


async def test_a_check_that_wrong_results_also_pass_does_not_count_and_is_named(box: NamespaceSandbox) -> None:
    found = await refused(box, proposal(body=BODY, expected=(predicted(100, between=[-(10**6), 10**6]),)))
    assert "`between [-1000000, 1000000]` is also true of most wrong results of `add_one(number=100)`" in str(found)


async def test_a_right_prediction_for_which_nobody_asked_does_not_count_and_is_named(box: NamespaceSandbox) -> None:
    found = await refused(box, proposal(body=BODY, expected=(predicted(-123_456),)))
    assert "`add_one(number=-123456)` agrees, but proves nothing" in str(found)


async def test_a_prediction_that_repeats_a_test_does_not_count(box: NamespaceSandbox) -> None:
    asked = await refused(box, proposal(body=BODY))
    again = await refused(box, proposal(body=BODY, expected=(predicted(1), predicted(1))))
    assert again.questions == asked.questions


async def test_a_prediction_that_differs_from_the_code_is_disputed_even_with_strong_tests(
    box: NamespaceSandbox,
) -> None:
    cases = [-7, 0, 1, 2, 99, 100, 101, 102]
    lines = "\n".join(f"    assert add_one({each}) == {right(each)}" for each in cases)
    strong = proposal(body=BODY, tests=f"from add_one import add_one\n\n\ndef test_it():\n{lines}\n")
    assert isinstance(await proposed(box, strong), Admission)
    found = await refused(box, replace(strong, expected=(predicted(50, result=50),)))
    assert [each.arguments for each in found.questions] == [{"number": 50}]
    assert found.questions[0].disputed


async def test_without_an_author_the_questions_stay_open_and_the_report_says_so(box: NamespaceSandbox) -> None:
    found = await proposed(box, proposal(body=BODY), author=False)
    assert isinstance(found, Admission)
    assert open_questions(found.report) > 0
    assert "stays on probation" in report_summary(found.report)


async def test_one_tested_call_is_too_little_even_if_it_kills_every_mutant(box: NamespaceSandbox) -> None:
    """If the tests make one call, the author must state the results of three more. If they make three, of no more."""
    one = proposal(
        body="return number * 2 + 1",
        tests="from add_one import add_one\n\n\ndef test_it():\n    assert add_one(7) == 15\n",
    )
    found = await refused(box, one)
    assert len(found.questions) == 3
    expected = [Prediction(each.arguments, {"result": each.arguments["number"] * 2 + 1}) for each in found.questions]
    assert isinstance(await proposed(box, replace(one, expected=tuple(expected))), Admission)
    three = replace(one, tests=f"{one.tests}    assert add_one(0) == 1\n    assert add_one(-4) == -7\n")
    assert isinstance(await proposed(box, three), Admission)


async def test_one_question_is_about_a_call_that_raises_if_nothing_states_an_exception(box: NamespaceSandbox) -> None:
    """A search that raises for a missing number should perhaps return -1; only a question can show which is meant."""
    code = (
        'def add_one(numbers: list[int], number: int) -> int:\n    """Find a number.\n\n    Args:\n'
        '        numbers: Where to look.\n        number: What to find.\n    """\n    return numbers.index(number) + 1\n'
    )
    tests = "from add_one import add_one\n\n\ndef test_it():\n    assert add_one([5, 2, 7], 7) == 3\n"
    asked = await refused(box, replace(proposal(), code=code, tests=tests))
    missing = [each.arguments["number"] not in each.arguments["numbers"] for each in asked.questions]
    assert missing.count(True) == 1
    stated = f"import pytest\n{tests}    with pytest.raises(ValueError):\n        add_one([5, 2, 7], 1)\n"
    asked = await refused(box, replace(proposal(), code=code, tests=stated))
    assert all(each.arguments["number"] in each.arguments["numbers"] for each in asked.questions)


async def test_a_change_that_a_call_would_show_is_asked_about_even_if_nearly_all_others_are_killed(
    box: NamespaceSandbox,
) -> None:
    cases = [-7, 0, 1, 2, 99, 101, 102]
    lines = "\n".join(f"    assert add_one({each}) == {right(each)}" for each in cases)
    offered = proposal(body=BODY, tests=f"from add_one import add_one\n\n\ndef test_it():\n{lines}\n")
    with pytest.raises(SkillRefused) as found:
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=replace(UNHURRIED, enough=0.5))
    assert [each.arguments for each in found.value.questions] == [{"number": 100}]


@pytest.mark.spec("GATE-2")
async def test_if_no_questions_can_be_asked_the_refusal_names_the_surviving_mutants(box: NamespaceSandbox) -> None:
    """A question cannot contain files, so for a skill that reads a file the refusal names mutants."""
    code = (
        'def add_one(path: str) -> int:\n    """Count.\n\n    Args:\n        path: a file.\n    """\n'
        "    lines = open(path).read().split(',')\n    found = 0\n    for each in lines:\n"
        "        if len(each) > 3 and each != 'none' or each == 'one':\n            found += 2 if each[0] > 'm' else 1\n"
        "    return found\n"
    )
    tests = (
        "from add_one import add_one\n\n\ndef test_it(tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)\n"
        "    (tmp_path / 'a').write_text('abcdef')\n    assert add_one('a') == 1\n"
    )
    found = await refused(box, replace(proposal(), code=code, tests=tests))
    assert not [each for each in found.questions if "path" not in each.arguments]
    assert "- line " in str(found) or found.questions


async def test_fewer_questions_are_needed_the_more_the_tests_prove() -> None:
    needed = [questions_needed(share / 100, 0.9) for share in range(101)]
    assert needed == sorted(needed, reverse=True)
    assert (needed[50], needed[0], needed[90], needed[100]) == (10, 10, 0, 0)
