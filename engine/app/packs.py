"""Opens packs and adds their tools to one registry."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from engine.app.plugins import TOOL_SOURCES, find, own
from engine.app.services import Services
from engine.contract.background import BackgroundService
from engine.contract.failure import ConfigError
from engine.contract.pack import Need, Pack
from engine.contract.ports import NO_PORTS, Ports
from engine.contract.prompt_block import PromptBlock
from engine.contract.run_summary import RunObserver
from engine.contract.source import Tool, ToolSource
from engine.registry.registry import Registry

log = logging.getLogger("knackbox.packs")

OpenPack = Callable[[Services], Awaitable[Pack]]


@dataclass(slots=True)
class OpenedPacks:
    """The registry and everything else that the packs that have been opened provide."""

    registry: Registry = field(default_factory=lambda: Registry(()))
    provides: dict[type, Any] = field(default_factory=dict)
    ports: Ports = NO_PORTS
    blocks: tuple[PromptBlock, ...] = ()
    observers: tuple[RunObserver, ...] = ()
    background: tuple[BackgroundService, ...] = ()
    meets: frozenset[str] = frozenset()
    started: tuple[Callable[[Need], Awaitable[None]], ...] = ()

    def static_names(self) -> frozenset[str]:
        return self.registry.static_names()

    async def find(self, name: str) -> Tool | None:
        return await self.registry.find(name)

    def join(self, sources: Sequence[ToolSource]) -> None:
        """Add tool sources. If the name of any of their tools is taken, none of the sources is added.

        Raises:
            RegistryError: A name is taken.
        """
        self.registry = self.registry.joined(sources)

    async def add(self, pack: Pack, stack: AsyncExitStack) -> None:
        """Add an open pack, which `stack` will close. A pack that cannot be added is closed immediately.

        Raises:
            RegistryError: The pack uses a name that is taken.
        """
        try:
            self.join(pack.sources)
        except ConfigError:
            await pack.aclose()
            raise
        self.provides = {**pack.provides, **self.provides}
        self.ports = self.ports if pack.ports is NO_PORTS else self.ports.or_else(pack.ports)
        self.blocks += pack.blocks
        self.observers += pack.observers
        self.background += pack.background
        self.meets |= pack.meets
        self.started += (pack.started,)
        stack.push_async_callback(pack.aclose)


async def open_packs(opened: OpenedPacks, services: Services, stack: AsyncExitStack) -> None:
    """Open the packs of all entry points. Third-party packs that cannot be opened are skipped with a warning.

    Raises:
        ConfigError: A pack of Knackbox cannot be opened.
    """
    ours = {point.name for point in own(TOOL_SOURCES)}
    for point in find(TOOL_SOURCES):
        if point.name in ours:
            open_pack: OpenPack = point.load()
            await opened.add(await open_pack(services), stack)
            continue
        try:
            await opened.add(await open_foreign(point, services), stack)
        except Exception as error:  # noqa: BLE001 -- third-party code may raise anything
            log.warning(
                "The pack %s (%s) is skipped: %s: %s. Repair or uninstall it.",
                point.name,
                point.value,
                type(error).__name__,
                error,
            )


async def open_foreign(point: EntryPoint, services: Services) -> Pack:
    """Open a third-party pack. Any exception of its code propagates.

    Raises:
        TypeError: The entry point did not return a pack.
    """
    pack = await point.load()(services)
    if not isinstance(pack, Pack):
        raise TypeError(f"open_pack returned {type(pack).__name__} instead of engine.contract.pack.Pack")
    return pack
