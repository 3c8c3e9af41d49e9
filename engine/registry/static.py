"""`StaticSource`: a fixed set of tools. Built-in tools and most packs use it."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from engine.contract.failure import ConfigError, UnknownName
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.formats.tags import TagError, TagRegistry


class RegistryError(ConfigError):
    """A tool, prompt or agent cannot be registered, for example because of a name clash. Nothing was registered."""


class UnknownEntry(RegistryError, UnknownName):
    """No tool, prompt or agent is registered with this id."""


class StaticSource:
    """A source with tools that never change, sorted by name.

    Raises:
        RegistryError: Two of the tools share a name or an alias.
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
        """The tools, by every name and alias."""
        return MappingProxyType(self._entries)

    async def tools(self, turn: Turn) -> Sequence[Tool]:  # noqa: ARG002 -- required by the protocol
        return self._tools

    async def find(self, name: str) -> Tool | None:
        return self._entries.get(name)


def check_tag(spec: ToolSpec) -> None:
    """Check that a tool's tag is valid. An invalid tag would break the parsing of all answers of models.

    Raises:
        RegistryError: The tag is invalid.
    """
    try:
        TagRegistry([spec])
    except TagError as error:
        raise RegistryError(str(error)) from error
