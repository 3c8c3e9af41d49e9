"""The contract as a suite, and every attempt to get out that is for this level."""

import pytest

from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.self_check import Verdict, self_check

pytestmark = [pytest.mark.escapes, pytest.mark.spec("BOX-14"), pytest.mark.timeout(300)]
CANNOT = {"a workspace can be copied", "neighbours"}  # it refuses the one by name, and could not start the other


@pytest.mark.asyncio(loop_scope="module")
async def test_the_level_keeps_every_promise_it_makes(box: LandlockSandbox) -> None:
    findings = await self_check(box)
    assert [f"{each.name}: {each.detail}" for each in findings if each.failed] == []
    assert {each.name.partition(" (")[0] for each in findings if each.verdict is Verdict.SKIPPED} == CANNOT
