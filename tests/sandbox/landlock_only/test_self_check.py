"""Runs the self-check, with every escape attempt that applies to this backend."""

import pytest

from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.self_check import Verdict, self_check

pytestmark = [pytest.mark.escapes, pytest.mark.spec("BOX-14"), pytest.mark.timeout(300)]
CANNOT = {"a workspace can be copied", "neighbours"}  # the backend refuses the first, and cannot start the second


@pytest.mark.asyncio(loop_scope="module")
async def test_the_backend_passes_every_check_that_applies_to_it(box: LandlockSandbox) -> None:
    findings = await self_check(box)
    assert [f"{each.name}: {each.detail}" for each in findings if each.failed] == []
    assert {each.name.partition(" (")[0] for each in findings if each.verdict is Verdict.SKIPPED} == CANNOT
