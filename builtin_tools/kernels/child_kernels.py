"""`ChildKernels`: stops the kernels of a child run when the run has ended."""

from builtin_tools.kernels.cells import owner_of
from builtin_tools.kernels.service import Kernels
from engine.contract.run_summary import RunSummary
from engine.contract.turn import Turn


class ChildKernels:
    """Stops kernels that nobody can use any more. Other kernels stay, because the agent's next run may use them."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    async def run_ended(self, turn: Turn, summary: RunSummary) -> None:  # noqa: ARG002 -- the signature of `RunObserver`
        pool = self._kernels.opened
        if turn.workspace and pool is not None:
            for kernel in pool.kernels(owner_of(turn)):
                await kernel.stop()
