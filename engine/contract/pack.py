"""`Pack`: what an entry point of the group ``knackbox.tool_sources`` adds to an engine.

The entry point is ``async def open_pack(services: engine.app.services.Services) -> Pack``. Knackbox's own built-in
tools and skills use the same entry point as third-party packs.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.background import BackgroundService
from engine.contract.ports import NO_PORTS, Ports
from engine.contract.prompt_block import PromptBlock
from engine.contract.run_summary import RunObserver
from engine.contract.source import ToolSource

# Called with a class, it returns the service of this class, as `CallContext.need` does.
Need = Callable[[type[Any]], Any]


async def nothing_to_start(need: Need) -> None:
    """Do nothing. The default `started` of packs."""


async def nothing_to_close() -> None:
    """Do nothing. The default `aclose` of packs, for those without resources."""


@dataclass(frozen=True, slots=True)
class Pack:
    """An installed extension of the engine.

    Attributes:
        sources: Its tool sources.
        provides: Services for tools (`ctx.need`), by class.
        aclose: Called once when the engine closes.
        ports: The memory, model client or scheduler that it implements. If several packs implement the same port, the
            first pack's is used.
        blocks: Texts that it adds to the prompts of turns.
        observers: Receive a summary of each run of the loop.
        background: What it does while the engine serves.
        meets: The requirements that it meets, by the names that tools use in `requires`.
        started: Called once when all packs are open and the engine can be used, such as to finish what a killed process
            left behind.
    """

    sources: tuple[ToolSource, ...] = ()
    provides: Mapping[type, Any] = field(default_factory=dict)
    aclose: Callable[[], Awaitable[None]] = nothing_to_close
    ports: Ports = NO_PORTS
    blocks: tuple[PromptBlock, ...] = ()
    observers: tuple[RunObserver, ...] = ()
    background: tuple[BackgroundService, ...] = ()
    meets: frozenset[str] = frozenset()
    started: Callable[[Need], Awaitable[None]] = nothing_to_start
