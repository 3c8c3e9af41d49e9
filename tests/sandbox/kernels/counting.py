"""An agent whose cells count: the count continues unless the result reports that the state was lost."""

import asyncio
import random
from contextlib import suppress

from sandbox.contract import SandboxError
from sandbox.kernels.pool import KernelPool
from sandbox.kernels.spec import Cell, CellLimits, KernelOwner, NoKernel

COUNT = "n = globals().get('n', 0) + 1; print(n)"
LIMITS = CellLimits(wall_s=20.0, grace_s=1.0)
_SOON_S = 0.02


class Counting:
    """An agent with one kernel.

    Attributes:
        count: The value that the next cell must increase.
        lost: The number of reported losses of its state.
    """

    def __init__(self, pool: KernelPool, owner: KernelOwner, chance: random.Random) -> None:
        self._pool = pool
        self.owner = owner
        self.chance = chance
        self.count = 0
        self.lost = 0

    async def count_on(self) -> None:
        """Run a cell and check that the count increases by one, or is 1 in a result that reports a loss."""
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
        waiting = asyncio.ensure_future(self._pool.run(self.owner, COUNT, limits=LIMITS))
        await asyncio.wait((waiting,), timeout=self.chance.random() * _SOON_S)
        waiting.cancel()
        cell = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if isinstance(cell, Cell):
            self._hear(cell)
            self._counted(cell)  # it ended before it was cancelled
        else:  # the cell may have counted, and a loss was not delivered: read the count
            shown = await self.run("print(globals().get('n', 0))")
            if shown is not None:
                self.count = int(shown.stdout) if shown.ok else 0

    async def stop(self) -> None:
        with suppress(NoKernel):
            await self._pool.find(self.owner).stop()

    async def run(self, code: str) -> Cell | None:
        try:
            cell = await self._pool.run(self.owner, code, limits=LIMITS)
        except SandboxError:  # the template was killed while the kernel started, so no state was lost
            return None
        self._hear(cell)
        return cell

    def _hear(self, cell: Cell) -> None:
        self.lost += bool(cell.state_lost)
