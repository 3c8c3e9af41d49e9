"""Hostile programs get nothing over their bridge that their turn does not allow, and the engine stays healthy."""

import asyncio
import os

import pytest

from engine.app.engine import Engine
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from tests.builtin_tools.bridge.conftest import Answers, Ledger, Run
from tests.builtin_tools.bridge.hostile_programs import programs

_PARTS = 4
TURN = Turn(allowed=Allowed.of(["execute", "look_up", "pay"]))


@pytest.mark.slow
@pytest.mark.spec("CODE-2")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(_PARTS))
async def test_no_hostile_program_pays_and_the_engine_stays_healthy(
    run: Run, engine: Engine, answers: Answers, ledger: Ledger, part: int
) -> None:
    answers.approve = False
    every = programs()
    assert len(every) >= 300
    await run("from knackbox import tools\ntools.look_up(key='x')")
    tasks, descriptors = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    for code in every[part::_PARTS]:
        result = await run(code, tools=True, timeout_s=20, turn=TURN)
        assert result.failure is None or "AssertionError" not in result.text, (code, result.text)
        assert ledger.paid == [], code
    after = await run("from knackbox import tools\ntools.look_up(key='x')")
    assert after.success, after.text
    assert after.output["value"] == "value of x"
    assert len(asyncio.all_tasks()) <= tasks + 2
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 50  # eight boxes that wait have 48; a leak would be 75


@pytest.mark.spec("CODE-2")
async def test_the_same_programs_would_pay_if_they_were_allowed_to(run: Run, ledger: Ledger) -> None:
    """The control: the requests of the hostile programs are understood, and only the missing approval stops them."""
    paying = next(code for code in programs() if "pay(approved=True)" in code)
    result = await run(paying, tools=True)
    assert result.success, result.text
    assert ledger.paid == ["stolen:1"]
