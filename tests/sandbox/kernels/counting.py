"""One agent's kernel, and what it must answer: a count that goes on, unless it is said that it does not."""

import asyncio
import random

from sandbox.contract import SandboxError
from sandbox.kernels.pool import KernelPool
from sandbox.kernels.spec import Cell, CellLimits

COUNT = "n = globals().get('n', 0) + 1; print(n)"
LIMITS = CellLimits(wall_s=20.0, grace_s=1.0)
_SOON_S = 0.02


class Counting:
    """lost: how often it was told that its state was gone."""

    def __init__(self, pool: KernelPool, agent: str, chance: random.Random) -> None:
        self._pool = pool
        self.agent = agent
        self.chance = chance
        self.count = 0
        self.lost = 0

    async def go_on(self) -> None:
        """The count is one more than before, or 1 in a result that says why."""
        cell = await self.run(COUNT)
        if cell is not None:
            self._counted(cell)

    def _counted(self, cell: Cell) -> None:
        expected = 1 if cell.state_lost else self.count + 1
        if cell.ok:
            assert cell.stdout == f"{expected}\n", cell
            self.count = expected
        else:
            assert cell.state_lost, cell
            self.count = 0

    async def die_in_a_cell(self) -> None:
        cell = await self.run("import os; os.kill(os.getpid(), 9)")
        assert cell is None or cell.state_lost
        self.count = 0

    async def cancel(self) -> None:
        waiting = asyncio.ensure_future(self._pool.run(self.agent, COUNT, limits=LIMITS))
        await asyncio.wait((waiting,), timeout=self.chance.random() * _SOON_S)
        waiting.cancel()
        cell = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if isinstance(cell, Cell):
            self._hear(cell)
            self._counted(cell)  # its kernel may have been killed before it was to be cancelled
        else:  # it may have counted or not, and nobody was told of a loss: so ask, in a way that shows neither
            shown = await self.run("print(globals().get('n', 0))")
            if shown is not None:
                self.count = int(shown.stdout) if shown.ok else 0

    async def run(self, code: str) -> Cell | None:
        try:
            cell = await self._pool.run(self.agent, code, limits=LIMITS)
        except SandboxError:  # the template was killed as the kernel began: nobody's state
            return None
        self._hear(cell)
        return cell

    def _hear(self, cell: Cell) -> None:
        self.lost += bool(cell.state_lost)
