"""The default backend passes the self-check."""

import tempfile

import pytest

from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check import CHECKS, Finding, Verdict, self_check

pytestmark = [pytest.mark.escapes, pytest.mark.spec("BOX-14")]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_default_backend_passes_every_check(box: NamespaceSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Finding] = []
    # Tests in other processes use the folder that all share. `tmp_path` is too long for the path of a socket.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        findings = await self_check(box, on_result=told.append, escapes=False)
        monkeypatch.undo()
    assert told == findings
    assert [f"{each.name}: {each.detail}" for each in findings if each.failed] == []
    assert [each.name for each in findings if each.verdict is Verdict.SKIPPED] == []


def test_every_check_has_a_unique_name() -> None:
    names = [(check.group, check.name) for check in CHECKS]
    assert len(set(names)) == len(names)
