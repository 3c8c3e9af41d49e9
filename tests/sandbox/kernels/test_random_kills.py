"""Kernels that are killed at random moments in random ways: every lost state is said once, and nothing is left."""

import asyncio
import os
import random
import signal

import pytest

from sandbox.contract import SandboxError
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import Cell, CellLimits
from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.test_cleanup import marked, supervisors_of, wait_until

COUNT = "n = globals().get('n', 0) + 1; print(n)"
LIMITS = CellLimits(wall_s=20.0, grace_s=1.0)


class Session:
    """One agent's kernel, and what it must answer: a count that goes on, unless it was said that it would not."""

    def __init__(self, pool: KernelPool, agent: str, chance: random.Random, mark: str) -> None:
        self._pool = pool
        self._agent = agent
        self._chance = chance
        self._mark = mark
        self._count = 0

    async def live(self, cells: int) -> None:
        await self._run(f"import subprocess; child = subprocess.Popen(['sleep', '{self._mark}'])")
        for _ in range(cells):
            await self._chance.choice(
                [self._go_on, self._go_on, self._die_in_a_cell, self._die_between, self._cancel]
            )()
        await self._go_on()
        await self._pool.stop(self._agent)

    async def _go_on(self) -> None:
        """The count is one more than before, or 1 in a result that says why."""
        cell = await self._run(COUNT)
        if cell is None:
            return
        expected = 1 if cell.state_lost else self._count + 1
        if cell.ok:
            assert cell.stdout == f"{expected}\n", cell
            self._count = expected
        else:
            assert cell.state_lost, cell
            self._count = 0

    async def _die_in_a_cell(self) -> None:
        cell = await self._run("import os; os.kill(os.getpid(), 9)")
        assert cell is None or cell.state_lost
        self._count = 0

    async def _die_between(self) -> None:
        live = self._pool._sessions.get((self._agent, "default"))
        if live is not None and live.live is not None:
            kernel = live.live.kernel
            kernel.signal(signal.SIGKILL)
            async with asyncio.timeout(20):
                await kernel.gone()

    async def _cancel(self) -> None:
        waiting = asyncio.ensure_future(self._pool.run(self._agent, COUNT, limits=LIMITS))
        await asyncio.wait((waiting,), timeout=self._chance.random() * 0.02)
        waiting.cancel()
        cell = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if isinstance(cell, Cell):
            self._count = 1 if cell.state_lost else self._count + 1
        else:  # it may have counted or not, and nobody was told of a loss: so ask, in a way that shows neither
            shown = await self._run("print(globals().get('n', 0))")
            if shown is not None:
                self._count = int(shown.stdout) if shown.ok else 0

    async def _run(self, code: str) -> Cell | None:
        try:
            return await self._pool.run(self._agent, code, limits=LIMITS)
        except SandboxError:  # the template was killed as the kernel began: nobody's state
            return None


async def sessions(count: int, cells: int, seed: int) -> None:
    chance = random.Random(seed)
    mark = f"{os.getpid()}.{seed}77"
    before = set(supervisors_of(os.getpid()))  # other tests' provisioners share one that stays
    async with NamespaceSandbox() as box:
        async with KernelPool(box, PoolConfig(warm=1, most=8)) as pool:
            at_once = asyncio.Semaphore(4)

            async def one(number: int) -> None:
                async with at_once:
                    await Session(pool, f"agent {number}", random.Random(chance.random()), mark).live(cells)

            await asyncio.gather(*(one(number) for number in range(count)))
            assert not any(session.live for session in pool._sessions.values())
        await asyncio.to_thread(wait_until, lambda: not marked(mark))
    assert set(supervisors_of(os.getpid())) <= before


@pytest.mark.spec("KERN-5", "KERN-6")
async def test_kernels_killed_at_random_lose_their_state_with_one_word_each() -> None:
    await sessions(count=6, cells=5, seed=1)


@pytest.mark.soak
@pytest.mark.spec("KERN-5", "KERN-6")
async def test_the_same_for_long() -> None:
    await sessions(count=int(os.environ.get("SOAK_RUNS", "500")), cells=6, seed=int(os.environ.get("SOAK_SEED", "7")))
