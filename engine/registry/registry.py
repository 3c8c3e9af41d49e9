"""`Registry`: everything that exists, by name, over all sources. What is offered this turn is `engine.turn`'s."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from engine.contract.context import CallContext
from engine.contract.failure import ToolNotFound
from engine.contract.source import Tool, ToolSource
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.registry.nearest import nearest
from engine.registry.static import RegistryError, StaticSource

_log = logging.getLogger("knackbox.registry")


class Registry:
    """Looks tools up over several sources.

    A static tool always wins over one of the same name from a source that changes (skills, remote modules), so
    nothing acquired can shadow it. Raises RegistryError when two static sources claim one name or alias, or two
    sources have one name.
    """

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = tuple(sources)
        self._static: dict[str, Tool] = {}
        self._changing: list[ToolSource] = []
        owner: dict[str, str] = {}
        seen: set[str] = set()
        for source in self._sources:
            if source.name in seen:
                raise RegistryError(f"Two tool sources are called {source.name!r}; rename or remove one.")
            seen.add(source.name)
            if not isinstance(source, StaticSource):
                self._changing.append(source)
                continue
            for called, tool in source.entries.items():
                if called in owner:
                    raise RegistryError(
                        f"The tool name {called!r} is claimed by the sources {owner[called]!r} and {source.name!r}; "
                        "rename one tool, remove the alias, or leave one source out."
                    )
                owner[called] = source.name
                self._static[called] = tool

    @property
    def sources(self) -> tuple[ToolSource, ...]:
        return self._sources

    def static_names(self) -> frozenset[str]:
        """Every name and alias of a static tool: names that nothing acquired may take."""
        return frozenset(self._static)

    def static_specs(self) -> dict[str, ToolSpec]:
        """Static tools by primary name, sorted."""
        return {called: tool.spec for called, tool in sorted(self._static.items()) if called == tool.spec.name}

    def find_static(self, name: str) -> Tool | None:
        """The static tool of this name or alias, without waiting for anything."""
        return self._static.get(name)

    async def find(self, name: str) -> Tool | None:
        """The tool of exactly this name or alias. What a source raises while looking passes through."""
        tool = self._static.get(name)
        if tool is not None:
            return tool
        for source in self._changing:
            tool = await source.find(name)
            if tool is not None:
                return tool
        return None

    async def all_tools(self, turn: Turn | None = None) -> list[Tool]:
        """Every tool of every source, sorted by name; where names collide the first source wins, static first."""
        asked = turn or Turn()
        found = {tool.spec.name: tool for tool in self._static.values()}
        for source in self._changing:
            for tool in await source.tools(asked):
                if tool.spec.name not in self._static:
                    found.setdefault(tool.spec.name, tool)
        return [found[name] for name in sorted(found)]

    async def nearest(self, name: str, limit: int = 3) -> list[str]:
        """The names (or aliases) most like this one, best first. A source that cannot answer is left out."""
        names = set(self._static)
        for source in self._changing:
            try:
                tools = await source.tools(Turn())
            except Exception as error:  # noqa: BLE001 - a hint must not hide the error it belongs to
                _log.warning("Tool source %r gave no names to compare with: %s", source.name, error)
                continue
            names.update(called for tool in tools for called in (tool.spec.name, *tool.spec.aliases))
        return await asyncio.to_thread(nearest, name, names, limit)

    async def execute(self, name: str, arguments: Mapping[str, Any], ctx: CallContext) -> Any:
        """Run a tool as it is: no validation, deadline or recovery (`engine.dispatch` has those).

        Raises ToolNotFound for an unknown name, and whatever the tool raises.
        """
        tool = await self.find(name)
        if tool is None:
            near = ", ".join(await self.nearest(name))
            raise ToolNotFound(f"There is no tool {name!r}." + (f" Nearest: {near}." if near else ""))
        return await tool.run(ctx, arguments)
