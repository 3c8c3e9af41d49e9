"""In plan mode the changing calls of a program are approved as one list, and exactly these are made."""

import pytest

from engine.policy.approval import NOT_APPROVED
from engine.policy.forms import Form
from tests.builtin_tools.bridge.conftest import Answers, Ledger, Run

PROGRAM = (
    "from knackbox import tools\nseen = tools.look_up(key='x')\n[tools.pay(order=each, amount=2) for each in 'abc']"
)


@pytest.mark.spec("CODE-3")
async def test_a_person_approves_the_changing_calls_as_one_list(run: Run, answers: Answers, ledger: Ledger) -> None:
    result = await run(PROGRAM, plan=True)
    assert result.success, result.text
    assert result.output["value"] == [{"planned": 1}, {"planned": 2}, {"planned": 3}]
    assert ledger.paid == ["a:2", "b:2", "c:2"]
    assert len(answers.asked) == 1
    asked = answers.asked[0].arguments["plan"]
    assert [(line["call"], line["arguments"]["order"]) for line in asked] == [("pay", "a"), ("pay", "b"), ("pay", "c")]
    assert '3. pay(order="c", amount=2): paid c' in result.text


@pytest.mark.spec("CODE-3")
async def test_nothing_is_done_without_the_approval(run: Run, answers: Answers, ledger: Ledger) -> None:
    answers.approve = False
    result = await run(PROGRAM, plan=True)
    assert not result.success
    assert result.failure is not None
    assert result.failure.reason == NOT_APPROVED
    assert ledger.paid == []


@pytest.mark.spec("CODE-3")
async def test_nothing_is_asked_if_the_program_fails(run: Run, answers: Answers, ledger: Ledger) -> None:
    result = await run(PROGRAM + "\n1 / 0", plan=True)
    assert not result.success
    assert answers.asked == []
    assert ledger.paid == []


@pytest.mark.spec("CODE-3")
async def test_lines_after_a_reading_that_has_changed_fail(run: Run, answers: Answers, ledger: Ledger) -> None:
    ledger.values["y"] = "old"
    answers.before_answer = lambda: ledger.values.update(y="new")
    result = await run(
        "from knackbox import tools\ntools.pay(order='a')\ntools.look_up(key='y')\ntools.pay(order='b')", plan=True
    )
    assert result.success, result.text
    assert ledger.paid == ["a:1"]
    assert '2. pay(order="b"): not done: what look_up returned has changed since the plan' in result.text


@pytest.mark.spec("CODE-3")
@pytest.mark.parametrize("engine_with", [{"leave_out": "2, 9"}])
async def test_a_person_leaves_out_lines(run: Run, ledger: Ledger, filled: list[Form]) -> None:
    result = await run(PROGRAM, plan=True)
    assert result.success, result.text
    assert ledger.paid == ["a:2", "c:2"]
    assert '2. pay(order="b", amount=2): left out' in result.text
    assert '3. pay(order="c", amount=2)' in filled[0].message


@pytest.mark.spec("CODE-3")
async def test_the_list_cannot_change_after_the_program_has_ended(run: Run, answers: Answers, ledger: Ledger) -> None:
    """A child process of the program tries to make another call while the person decides."""
    result = await run(
        "import os, time\nfrom knackbox import tools\ntools.pay(order='a')\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for _ in range(1000):\n"
        "        try: tools.pay(order='stolen')\n"
        "        except BaseException: pass\n"
        "        time.sleep(0.01)\n"
        "1",
        plan=True,
    )
    assert result.success, result.text
    approved = [line["arguments"]["order"] for line in answers.asked[0].arguments["plan"]]
    assert [paid.partition(":")[0] for paid in ledger.paid] == approved
