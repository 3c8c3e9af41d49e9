"""What an agent calls a kernel: the kernel behind the name, and what is still to be told of the ones before it."""

import asyncio
from dataclasses import dataclass, field, replace

from sandbox.kernels.ready import Live
from sandbox.kernels.spec import Cell, KernelSpec

_BEFORE, _AFTER = "State was lost: ", ". Variables and imports of earlier cells are gone."


@dataclass(slots=True)
class Session:
    """lost: why its state is gone, until somebody has been told.

    used: when it was last begun or done with. settling: sees the end of a cell whose caller was cancelled.
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
        """Nothing runs in it, and nobody waits for it."""
        return not self.users and (self.settling is None or self.settling.done())

    @property
    def empty(self) -> bool:
        """There is nothing behind the name, and nothing to tell."""
        return not self.live and not self.lost and not self.users

    def lose(self, why: str) -> None:
        """The state is gone, or was told to be so to nobody."""
        self.lost = both(self.lost, why)

    async def drop(self) -> None:
        """End its kernel, if it has one."""
        live, self.live = self.live, None
        if live is not None:
            await live.end()


def both(before: str, now: str) -> str:
    """Two reasons as one; either may be empty."""
    return f"{before}; then {now}" if before and now else before or now


def told(cell: Cell, lost: str) -> Cell:
    """The cell, saying this loss."""
    return replace(cell, state_lost=_BEFORE + lost + _AFTER if lost else "")


def reason(state_lost: str) -> str:
    """The loss that a cell says."""
    return state_lost.removeprefix(_BEFORE).removesuffix(_AFTER)
