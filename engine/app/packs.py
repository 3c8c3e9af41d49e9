"""Opening packs, and joining what they offer into one registry."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from engine.app.plugins import TOOL_SOURCES, find, own
from engine.app.services import Services
from engine.contract.failure import ConfigError
from engine.contract.pack import Pack
from engine.contract.ports import NO_PORTS, Ports
from engine.contract.source import Tool, ToolSource
from engine.registry.registry import Registry

log = logging.getLogger("knackbox.packs")

OpenPack = Callable[[Services], Awaitable[Pack]]


@dataclass(slots=True)
class OpenedPacks:
    """What the packs opened so far bring. Services that want the static names ask here, also before all are open."""

    registry: Registry = field(default_factory=lambda: Registry(()))
    provides: dict[type, Any] = field(default_factory=dict)
    ports: Ports = NO_PORTS

    def static_names(self) -> frozenset[str]:
        return self.registry.static_names()

    async def find(self, name: str) -> Tool | None:
        return await self.registry.find(name)

    def join(self, sources: Sequence[ToolSource]) -> None:
        """Add sources. Raises RegistryError, and adds nothing, when a name is taken."""
        self.registry = self.registry.joined(sources)

    async def add(self, pack: Pack, stack: AsyncExitStack) -> None:
        """Add an open pack, closed with the stack; one that does not fit is closed at once. Raises RegistryError."""
        try:
            self.join(pack.sources)
        except ConfigError:
            await pack.aclose()
            raise
        self.provides = {**pack.provides, **self.provides}
        self.ports = self.ports if pack.ports is NO_PORTS else self.ports.or_else(pack.ports)
        stack.push_async_callback(pack.aclose)


async def open_packs(opened: OpenedPacks, services: Services, stack: AsyncExitStack) -> None:
    """Open the packs of all entry points. Ours must open; a broken one of somebody else is left out with a warning.

    Raises ConfigError when one of ours cannot open.
    """
    ours = {point.name for point in own(TOOL_SOURCES)}
    for point in find(TOOL_SOURCES):
        if point.name in ours:
            open_pack: OpenPack = point.load()
            await opened.add(await open_pack(services), stack)
            continue
        try:
            await opened.add(await open_foreign(point, services), stack)
        except Exception as error:  # noqa: BLE001 -- somebody else's code runs here; whatever it raises is its own fault
            log.warning(
                "The pack %s (%s) is left out: %s: %s. Repair or uninstall it.",
                point.name,
                point.value,
                type(error).__name__,
                error,
            )


async def open_foreign(point: EntryPoint, services: Services) -> Pack:
    """A pack of somebody else. Raises whatever its code raises, and TypeError when it gives something else."""
    pack = await point.load()(services)
    if not isinstance(pack, Pack):
        raise TypeError(f"open_pack gave {type(pack).__name__} instead of engine.contract.pack.Pack")
    return pack
