"""`Session`: the kernel behind an agent's name for it, and the unreported loss of earlier ones."""

import asyncio
from dataclasses import dataclass, field, replace

from sandbox.kernels.ready import Live
from sandbox.kernels.spec import Cell, KernelSpec

_BEFORE, _AFTER = "State was lost: ", ". Variables and imports of earlier cells are gone."


@dataclass(slots=True)
class Session:
    """The kernel behind a name.

    Attributes:
        lost: Why its state is gone, until it has been reported.
        used: When a cell was last started or finished.
        settling: Waits for the end of a cell whose caller was cancelled.
    """

    spec: KernelSpec
    lost: str = ""
    live: Live | None = None
    used: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    starting: bool = False
    settling: asyncio.Task[None] | None = None

    @property
    def free(self) -> bool:
        """Whether nothing runs in it and nobody waits for it."""
        return not self.users and (self.settling is None or self.settling.done())

    @property
    def empty(self) -> bool:
        """Whether it has no kernel and no unreported loss."""
        return not self.live and not self.lost and not self.users

    def lose(self, why: str) -> None:
        """Record a loss of state that is to be reported, or that was reported to nobody."""
        self.lost = both(self.lost, why)

    async def drop(self) -> None:
        """End its kernel, if it has one."""
        live, self.live = self.live, None
        if live is not None:
            await live.end()


def both(before: str, now: str) -> str:
    """Join two reasons; either may be empty."""
    return f"{before}; then {now}" if before and now else before or now


def with_loss(cell: Cell, lost: str) -> Cell:
    """Return the cell with this loss reported in it."""
    return replace(cell, state_lost=_BEFORE + lost + _AFTER if lost else "")


def reason(state_lost: str) -> str:
    """Return the loss that a cell reports."""
    return state_lost.removeprefix(_BEFORE).removesuffix(_AFTER)
