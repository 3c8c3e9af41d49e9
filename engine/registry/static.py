"""`StaticSource`: a fixed set of tools, known when it is made. Built-ins and most packs are this."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from engine.contract.failure import ConfigError, UnknownName
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.formats.tags import TagError, TagRegistry


class RegistryError(ConfigError):
    """Two tools want one name, or a source offers something that is no tool. Nothing of it was registered."""


class UnknownEntry(RegistryError, UnknownName):
    """Nothing is registered under this name."""


class StaticSource:
    """Tools that never change, sorted by name.

    Raises RegistryError when two of them share a name or an alias.
    """

    def __init__(self, name: str, tools: Iterable[Tool]) -> None:
        self._name = name
        self._tools: tuple[Tool, ...] = tuple(sorted(tools, key=lambda each: each.spec.name))
        entries: dict[str, Tool] = {}
        for tool in self._tools:
            for called in (tool.spec.name, *tool.spec.aliases):
                other = entries.setdefault(called, tool)
                if other is not tool:
                    raise RegistryError(
                        f"Source {name!r}: the name {called!r} is claimed by the tools {other.spec.name!r} and "
                        f"{tool.spec.name!r}; rename one or remove the alias."
                    )
        self._entries = entries

    @property
    def name(self) -> str:
        return self._name

    @property
    def entries(self) -> Mapping[str, Tool]:
        """Every name and alias, with its tool."""
        return MappingProxyType(self._entries)

    async def tools(self, turn: Turn) -> Sequence[Tool]:  # noqa: ARG002 - the protocol's; a fixed set asks nothing
        return self._tools

    async def find(self, name: str) -> Tool | None:
        return self._entries.get(name)


def check_tag(spec: ToolSpec) -> None:
    """Raises RegistryError for a tag that cannot be used: one such would spoil the reading of every answer."""
    try:
        TagRegistry([spec])
    except TagError as error:
        raise RegistryError(str(error)) from error
