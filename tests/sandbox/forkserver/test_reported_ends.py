"""The error of a template that ended says how it ended."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import asdict, replace

import pytest

from sandbox.contract import SandboxError
from sandbox.forkserver.launch import Program
from sandbox.forkserver.server import ForkServer, TemplateLost
from sandbox.namespace.template_config import PROGRAM, NamespaceTemplateConfig
from tests.eventually import eventually
from tests.sandbox.forkserver.child_processes import children

pytestmark = [pytest.mark.asyncio, pytest.mark.spec("BOX-4")]


@contextlib.asynccontextmanager
async def a_template(program: Program = PROGRAM) -> AsyncIterator[ForkServer]:
    config = NamespaceTemplateConfig((), (), (), ("/usr/bin", "/bin"), 65_500, "")
    server = ForkServer(program, asdict(config), warm=0)
    try:
        yield server
    finally:
        await server.aclose()


@pytest.mark.parametrize(
    ("victim", "told"), [("template", r"ended by signal 9 \(Killed\)"), ("supervisor", "its supervisor was killed")]
)
async def test_a_killed_process_is_named_with_its_signal(victim: str, told: str) -> None:
    before = children(os.getpid())
    async with a_template() as server:
        await server.start()
        (supervisor,) = children(os.getpid()) - before
        (template,) = children(supervisor)
        os.kill({"template": template, "supervisor": supervisor}[victim], signal.SIGKILL)
        await eventually(lambda: bool(server.dead))
        with pytest.raises(TemplateLost, match=told):
            await server.acquire()


async def test_a_supervisor_that_fails_before_it_starts_the_template_reports_the_exception() -> None:
    async with a_template(replace(PROGRAM, supervisor="sandbox.no_such_module")) as server:
        with pytest.raises(SandboxError, match=r"ModuleNotFoundError: No module named 'sandbox\.no_such_module'"):
            await server.start()
