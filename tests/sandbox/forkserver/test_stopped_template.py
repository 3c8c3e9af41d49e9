"""A template or supervisor that was stopped (SIGSTOP) is replaced, and the call that detects it succeeds."""

import os
import signal
from pathlib import Path

import pytest

from sandbox.contract import Job, Mount
from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.sandbox.forkserver.child_processes import children

pytestmark = [pytest.mark.asyncio, pytest.mark.spec("BOX-4")]


def make(level: str) -> NamespaceSandbox:
    if level == "landlock":
        return LandlockSandbox(LandlockConfig(warm=0))
    return NamespaceSandbox(NamespaceConfig(warm=0))


@pytest.mark.parametrize("level", ["namespace", "landlock"])
@pytest.mark.parametrize("stopped", ["supervisor", "template"])
async def test_a_stopped_process_is_replaced(level: str, stopped: str, tmp_path: Path) -> None:
    async with make(level) as box:
        before = children(os.getpid())
        assert (await box.run(Job(code="1"))).value == 1
        (supervisor,) = children(os.getpid()) - before
        (template,) = children(supervisor)
        os.kill(supervisor if stopped == "supervisor" else template, signal.SIGSTOP)
        if level == "namespace" and stopped == "supervisor":  # only jobs with a workspace need the supervisor
            (tmp_path / "in").write_text("seen")
            tmp_path.chmod(0o755)
            job = Job(code="open('in').read()", workspace=Mount(tmp_path))
            assert (await box.run(job)).value == "seen"
        else:
            if stopped == "supervisor":
                os.kill(template, signal.SIGSTOP)
            assert (await box.run(Job(code="2"))).value == 2
        assert not Path(f"/proc/{supervisor}").exists()
        assert not Path(f"/proc/{template}").exists() or supervisor not in children(os.getpid())
        assert (await box.run(Job(code="3"))).value == 3
        (successor,) = children(os.getpid()) - before
        assert successor != supervisor
    assert children(os.getpid()) <= before
