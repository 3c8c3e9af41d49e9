"""A worn-out template is replaced without a job noticing."""

import asyncio
import os
from pathlib import Path

import pytest

from sandbox.contract import End, Job
from sandbox.forkserver.pool import TemplateKey
from sandbox.forkserver.server import ForkServer
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.eventually import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.spec("BOX-7")]


class HeldSandbox(NamespaceSandbox):
    """Starts templates only while `may_start` is set."""

    def __init__(self, config: NamespaceConfig) -> None:
        super().__init__(config)
        self.may_start = asyncio.Event()
        self.starts = 0

    async def _start(self, key: TemplateKey) -> ForkServer:
        self.starts += 1
        await self.may_start.wait()
        return await super()._start(key)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split())


async def test_jobs_do_not_wait_for_the_successor_of_a_worn_out_template() -> None:
    before = children()
    async with HeldSandbox(NamespaceConfig(warm=0, forks_per_template=3)) as box:
        box.may_start.set()
        await box.run(Job(code="1"))
        first = children() - before
        box.may_start.clear()
        async with asyncio.timeout(60):
            ends = [(await box.run(Job(code="1"))).end for _ in range(6)]
        assert (set(ends), box.starts) == ({End.OK}, 2)
        box.may_start.set()

        async def replaced() -> bool:
            assert (await box.run(Job(code="1"))).end is End.OK
            return not first & children()

        await eventually(replaced)
    assert children() <= before


async def test_a_sandbox_closed_while_a_successor_starts_leaves_no_process() -> None:
    before = children()
    async with HeldSandbox(NamespaceConfig(warm=0, forks_per_template=1)) as box:
        box.may_start.set()
        for _ in range(2):
            await box.run(Job(code="1"))
    assert box.starts > 1
    assert children() <= before
