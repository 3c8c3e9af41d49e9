"""A call of a program is a call of its turn: every rule holds, and nobody is outvoted by code."""

import asyncio

import pytest

from engine.app.engine import Engine
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from engine.policy.approval import NOT_APPROVED
from tests.builtin_tools.bridge.conftest import Answers, Ledger, Run

IMPORT = "from knackbox import ToolError, tools\n"
REASON = (
    IMPORT
    + "try:\n    tools[{name!r}]({given})\n    reason = 'it ran'\nexcept ToolError as failed:\n    reason = failed.reason\nreason"
)


@pytest.mark.spec("CODE-2")
async def test_a_person_approves_each_call_that_needs_it(run: Run, answers: Answers, ledger: Ledger) -> None:
    result = await run(IMPORT + "[tools.pay(order='a'), tools.look_up(key='x'), tools.pay(order='b', amount=2)]")
    assert result.success, result.text
    assert result.output["value"] == ["paid a", "value of x", "paid b"]
    assert ledger.paid == ["a:1", "b:2"]
    assert [(asked.tool.name, dict(asked.arguments)) for asked in answers.asked] == [
        ("pay", {"order": "a"}),
        ("pay", {"order": "b", "amount": 2}),
    ]
    assert all(asked.call_id.startswith(f"{result.audit.call_id}/") for asked in answers.asked)


@pytest.mark.spec("CODE-2")
async def test_a_call_that_is_not_approved_is_not_made(run: Run, answers: Answers, ledger: Ledger) -> None:
    answers.approve = False
    result = await run(REASON.format(name="pay", given="order='a'"))
    assert result.output["value"] == NOT_APPROVED
    assert ledger.paid == []


@pytest.mark.spec("CODE-2")
@pytest.mark.parametrize("stateful", [False, True])
async def test_the_clock_of_a_program_stands_still_while_it_waits_for_a_person(
    run: Run, answers: Answers, ledger: Ledger, stateful: bool
) -> None:
    await run(IMPORT + "1", stateful=stateful)
    answers.wait_for = asyncio.Event()
    began = asyncio.get_running_loop().time()
    running = asyncio.ensure_future(run(IMPORT + "tools.pay(order='a')", timeout_s=1.0, stateful=stateful))
    await asyncio.wait_for(answers.begun.wait(), 30)
    done, _ = await asyncio.wait({running}, timeout=2.5)  # longer than the program may run
    assert not done
    answers.wait_for.set()
    result = await asyncio.wait_for(running, 30)
    assert result.success, result.text
    assert ledger.paid == ["a:1"]
    assert asyncio.get_running_loop().time() - began > 2.5


@pytest.mark.spec("CODE-2")
async def test_the_allow_list_of_the_agent_holds_in_programs(run: Run, ledger: Ledger) -> None:
    turn = Turn(allowed=Allowed.of(["execute", "look_up"]))
    code = REASON.format(name="pay", given="order='a'") + ", tools.look_up(key='x'), dir(tools)"
    result = await run(code, turn=turn)
    assert result.success, result.text
    assert result.output["value"] == ["denied", "value of x", ["describe", "look_up", "search"]]
    assert ledger.paid == []


@pytest.mark.spec("CODE-2")
@pytest.mark.parametrize("name", ["execute", "Execute", "execute_tool"])
async def test_a_program_runs_no_other_program(run: Run, name: str) -> None:
    given = "name='execute', arguments={'language': 'python', 'code': '1'}" if name == "execute_tool" else "code='1'"
    result = await run(REASON.format(name=name, given=given))
    assert result.success, result.text
    assert result.output["value"] in ("nested", "unknown_tool")


@pytest.mark.spec("CODE-2")
async def test_inner_calls_are_in_the_audit_with_the_id_of_their_program(run: Run, engine: Engine) -> None:
    result = await run(IMPORT + "tools.look_up(key='x')\ntools.pay(order='a')")
    assert result.success, result.text
    assert result.audit.data["calls"] == {"look_up": 1, "pay": 1}


@pytest.mark.spec("CODE-2")
async def test_calls_are_limited_in_number(run: Run, ledger: Ledger) -> None:
    result = await run(
        IMPORT + "made = 0\n"
        "try:\n    while True:\n        tools.look_up(key='x')\n        made += 1\n"
        "except ToolError as failed:\n    reason = failed.reason\n[made, reason]",
        timeout_s=100,
    )
    assert result.success, result.text
    assert result.output["value"] == [10_000, "too_many_calls"]
    assert ledger.looked == 10_000


@pytest.mark.spec("CODE-2")
@pytest.mark.parametrize("plan", [False, True])
async def test_calls_are_limited_in_size_together(run: Run, ledger: Ledger, plan: bool) -> None:
    result = await run(
        IMPORT + "made = 0\n"
        "try:\n    for _ in range(20):\n        tools.pay(order='x' * 5_000_000)\n        made += 1\n"
        "except ToolError as failed:\n    seen = [failed.reason, 'sent too much' in str(failed)]\n"
        "assert [made, *seen] == [13, 'invalid_request', True], [made, seen]\n1 / 0",
        plan=plan,
        timeout_s=60,
    )
    assert "ZeroDivisionError" in result.text, result.text[:2000]
    assert len(ledger.paid) == (0 if plan else 13)


@pytest.mark.spec("CODE-2")
async def test_a_cancelled_program_makes_no_further_call(
    run: Run, engine: Engine, answers: Answers, ledger: Ledger
) -> None:
    answers.wait_for = asyncio.Event()
    running = asyncio.ensure_future(run(IMPORT + "tools.pay(order='a')"))
    await asyncio.wait_for(answers.begun.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    answers.wait_for.set()
    after = await engine.call("look_up", {"key": "x"})
    assert after.success
    assert ledger.paid == []
