"""`Pack`: what an entry point of the group ``knackbox.tool_sources`` gives the engine when it opens.

The entry point is ``async def open_pack(services: engine.app.services.Services) -> Pack``. Knackbox's own built-ins
and skills come in by the same door as a company's.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.ports import NO_PORTS, Ports
from engine.contract.source import ToolSource


async def nothing_to_close() -> None:
    """For packs that hold nothing."""


@dataclass(frozen=True, slots=True)
class Pack:
    """sources: what it offers. provides: services its tools find on `ctx`, by class. aclose: called once at the end.

    ports: the memory, model client or scheduler that it implements for every tool; of two packs the first wins.
    """

    sources: tuple[ToolSource, ...] = ()
    provides: Mapping[type, Any] = field(default_factory=dict)
    aclose: Callable[[], Awaitable[None]] = nothing_to_close
    ports: Ports = NO_PORTS
