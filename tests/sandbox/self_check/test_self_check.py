"""The default backend passes the self-check."""

import tempfile

import pytest

from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check import CHECKS, Finding, Verdict, self_check

pytestmark = [pytest.mark.escapes, pytest.mark.spec("BOX-14")]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_default_backend_passes_every_check(box: NamespaceSandbox) -> None:
    told: list[Finding] = []
    # Other tests may create files in the shared temporary folder, and sockets below `tmp_path` would have too long a path.
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        findings = await self_check(box, on_result=told.append, escapes=False)
    assert told == findings
    assert [f"{each.name}: {each.detail}" for each in findings if each.failed] == []
    assert [each.name for each in findings if each.verdict is Verdict.SKIPPED] == []


def test_every_check_has_a_unique_name() -> None:
    names = [(check.group, check.name) for check in CHECKS]
    assert len(set(names)) == len(names)
