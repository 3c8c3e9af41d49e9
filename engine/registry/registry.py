"""`Registry`: finds tools by name in all sources. `engine.turn` decides which of them a turn offers.

The set of tools changes in three ways while the registry is open: tools are registered in this process (`register`),
sources change (skills, modules, the file of registered tools), and tools of any source are disabled and enabled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from engine.contract.failure import FailureClass, ToolNotFound, refusal
from engine.contract.result import ToolResult
from engine.contract.source import Tool, ToolSource
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.registry.nearest import nearest
from engine.registry.static import RegistryError, StaticSource, check_tag
from engine.registry.updates import Happening, RegistryUpdates

_log = logging.getLogger("knackbox.registry")

REGISTERED = "registered here"

Execute = Callable[[str, Mapping[str, Any], Any], Awaitable[ToolResult]]


class Switches(Protocol):
    """Stores which tools are disabled. `engine.registry.file_tools.FileTools` stores this in a file of the home."""

    @property
    def disabled(self) -> Mapping[str, str]:
        """The time at which each disabled tool was disabled, by id."""
        ...

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        """Disable or enable a tool. Return False if nothing changed."""
        ...


class MemorySwitches:
    """Stores disabled tools in memory, for a registry without a home."""

    def __init__(self) -> None:
        self.disabled: dict[str, str] = {}

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        changed = (spec_id in self.disabled) != disabled
        self.disabled.pop(spec_id, None)
        if disabled:
            self.disabled[spec_id] = "this start"
        return changed


@runtime_checkable
class Undotted(Protocol):
    """A dynamic source (one whose tools may change) whose tools have no dots in their names.

    Such a source need not be searched for a name with a dot.
    """

    undotted: bool


@runtime_checkable
class Owning(Protocol):
    """A source whose tools an operator configured. Acquired tools may not have the names of these tools."""

    def names(self) -> frozenset[str]: ...

    async def delete(self, name: str) -> bool:
        """Delete a tool, by name or alias. Return False if there is no such tool."""
        ...


class Registry:
    """Finds tools in several sources.

    A static tool takes precedence over one of the same name from a dynamic source (skills, remote modules), so no
    acquired tool can shadow it.

    Attributes:
        sources: All sources, static ones first.
        static: The static tools by every name and alias. Do not modify it; it changes when a tool is registered or
            deleted.

    Raises:
        RegistryError: Two static sources claim the same name or alias, or two sources have the same name.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        switches: Switches | None = None,
        updates: RegistryUpdates | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        """Create the registry.

        Args:
            sources: The sources.
            switches: Stores which tools are disabled; by default in memory.
            updates: Publishes changes.
            problems: Messages about what was skipped when the sources were created.
        """
        self.problems = tuple(problems)
        # Static sources first, as in `find`, so that lists contain the tool that is called.
        self.sources = tuple(sorted(sources, key=lambda source: not isinstance(source, StaticSource)))
        self._switches: Switches = switches or MemorySwitches()
        self._updates = updates
        self._registered = StaticSource(REGISTERED, ())
        self._execute: Execute | None = None
        self.static: dict[str, Tool] = {}
        self._changing: list[ToolSource] = []
        owner: dict[str, str] = {}
        seen: set[str] = set()
        for source in self.sources:
            if source.name in seen:
                raise RegistryError(f"Two tool sources have the name {source.name!r}; rename or remove one.")
            seen.add(source.name)
            if not isinstance(source, StaticSource):
                self._changing.append(source)
                continue
            for called, tool in source.entries.items():
                if called in owner:
                    raise RegistryError(
                        f"The tool name {called!r} is claimed by the sources {owner[called]!r} and {source.name!r}; "
                        "rename one tool, or remove the alias or one source."
                    )
                owner[called] = source.name
                self.static[called] = tool
        self._dotted = [source for source in self._changing if not isinstance(source, Undotted)]

    def joined(self, sources: Sequence[ToolSource]) -> "Registry":
        """Return a registry that includes these sources. Call it before any tool is registered."""
        return Registry((*self.sources, *sources), switches=self._switches, updates=self._updates)

    @property
    def disabled(self) -> Mapping[str, str]:
        """The time at which each disabled tool was disabled, by id."""
        return self._switches.disabled

    def static_names(self) -> frozenset[str]:
        """Return the names and aliases of all static and registered tools, which no acquired tool may take."""
        owned = (source.names() for source in self._changing if isinstance(source, Owning))
        return frozenset(self.static).union(*owned)

    def static_specs(self) -> dict[str, ToolSpec]:
        """Return the static tools by primary name, sorted."""
        return {called: tool.spec for called, tool in sorted(self.static.items()) if called == tool.spec.name}

    async def find(self, name: str) -> Tool | None:
        """Return the tool with exactly this name or alias, or None. Exceptions of sources propagate."""
        tool = self.static.get(name)
        if tool is not None:
            return tool
        for source in self._dotted if "." in name else self._changing:
            tool = await source.find(name)
            if tool is not None:
                return tool
        return None

    async def get(self, name: str) -> Tool:
        """Return the tool, even if it is disabled.

        Raises:
            ToolNotFound: There is no such tool. The message names the nearest ones.
        """
        tool = await self.find(name)
        if tool is None:
            near = ", ".join(await self.nearest(name))
            raise ToolNotFound(f"There is no tool {name!r}." + (f" Nearest: {near}." if near else ""))
        return tool

    async def get_metadata(self, name: str) -> ToolSpec:
        """Return the spec of the tool with this name or alias, or else with this id.

        Raises:
            ToolNotFound: There is no such tool.
        """
        tool = await self.find(name)
        if tool is not None:
            return tool.spec
        for each in await self.all_tools(include_disabled=True):
            if each.spec.id == name:
                return each.spec
        return (await self.get(name)).spec

    async def all_primary_names(self) -> list[str]:
        """Return the primary names of all tools, sorted. Aliases are not included."""
        return [tool.spec.name for tool in await self.all_tools(include_disabled=True)]

    async def register(self, tool: Tool) -> None:
        """Add a tool to this process. It stays until it is deleted.

        Raises:
            RegistryError: A name, an alias or the prefix of its tag is taken, or its tag is invalid.
        """
        check_tag(tool.spec)
        for called in (tool.spec.name, *tool.spec.aliases):
            other = await self.find(called)
            if other is not None:
                raise RegistryError(
                    f"{tool.spec.name} cannot be registered: the name {called!r} is claimed by {other.spec.name!r}. "
                    "Rename it, remove the alias, or delete the other tool first."
                )
        if tool.spec.tag is not None:
            for each in await self.all_tools(include_disabled=True):
                if each.spec.tag is not None and each.spec.tag.tag_prefix == tool.spec.tag.tag_prefix:
                    raise RegistryError(
                        f"{tool.spec.name} cannot be registered: its tag prefix {tool.spec.tag.tag_prefix!r} is "
                        f"already used by {each.spec.name!r}. Choose another."
                    )
        self._set_registered([*self._own(), tool])
        await self._publish("upsert", tool.spec.id)

    async def disable(self, name: str) -> bool:
        """Disable a tool of any source. Return False if it is already disabled.

        Raises:
            ToolNotFound: There is no such tool.
        """
        return await self._switches.set_disabled((await self.get(name)).spec.id, disabled=True)

    async def enable(self, name: str) -> bool:
        """Enable a tool. Return False if it is not disabled.

        Args:
            name: The name of the tool, or its id. With its id, a tool can be enabled even if it no longer exists.

        Raises:
            ToolNotFound: There is no such tool.
        """
        spec_id = name if name in self.disabled else (await self.get(name)).spec.id
        return await self._switches.set_disabled(spec_id, disabled=False)

    async def delete(self, name: str) -> None:
        """Delete a registered tool.

        Raises:
            ToolNotFound: There is no such tool.
            RegistryError: The tool cannot be deleted, because it belongs to a source.
        """
        tool = await self.get(name)
        if self._registered.entries.get(name) is not None:
            self._set_registered([each for each in self._own() if each is not tool])
            await self._switches.set_disabled(tool.spec.id, disabled=False)
            await self._publish("delete", tool.spec.id)
            return
        for source in self._changing:
            if isinstance(source, Owning) and await source.delete(name):
                return
        raise RegistryError(f"{tool.spec.name} was not registered, so it cannot be deleted. Disable it instead.")

    async def all_tools(self, turn: Turn | None = None, *, include_disabled: bool = False) -> list[Tool]:
        """Return the tools of all sources, sorted by name. On a name clash the first source wins, static ones first."""
        asked = turn or Turn()
        found = {tool.spec.name: tool for tool in self.static.values()}
        for source in self._changing:
            for tool in await source.tools(asked):
                if tool.spec.name not in self.static:
                    found.setdefault(tool.spec.name, tool)
        off = () if include_disabled else self.disabled
        return [found[name] for name in sorted(found) if found[name].spec.id not in off]

    async def nearest(
        self,
        name: str,
        limit: int = 3,
        *,
        turn: Turn | None = None,
        may_know: Callable[[ToolSpec], bool] = lambda _: True,
    ) -> list[str]:
        """Return the most similar names or aliases, best first. Sources that fail are skipped.

        Args:
            name: The misspelled name.
            limit: The maximum number of names to return.
            turn: The turn whose tools are considered; None for the default turn.
            may_know: Function that returns whether the caller may be told that a tool exists.
        """
        names = {called for called, tool in self.static.items() if may_know(tool.spec)}
        for source in self._changing:
            try:
                tools = [tool for tool in await source.tools(turn or Turn()) if may_know(tool.spec)]
            except Exception as error:  # noqa: BLE001 - failing to make a hint must not hide the original error
                _log.warning("Tool source %r failed to list its names: %s", source.name, error)
                continue
            names.update(called for tool in tools for called in (tool.spec.name, *tool.spec.aliases))
        return await asyncio.to_thread(nearest, name, names, limit)

    def execute_through(self, execute: Execute) -> None:
        """Make `Registry.execute` run its calls through this function, which applies every check."""
        self._execute = execute

    async def execute(self, name: str, arguments: Mapping[str, Any], ctx: Any = None) -> Any:
        """Run a tool.

        In an engine, the call passes limits, the evaluation gate and every other check, as with `Engine.call`, and the
        `ToolResult` is returned. `ctx` determines the turn of the call: a `Turn`, a `ToolContext`, or the
        `CallContext` of a calling tool.

        In a registry without an engine, the tool runs without any check. `ctx` is passed to the tool, the tool's value
        is returned, and its exceptions propagate.

        Raises:
            ToolNotFound: There is no such tool.
            ToolRateLimited: In an engine: a rate limit refuses the call.
            ToolFailure: Without an engine: the tool is disabled.
        """
        tool = await self.get(name)
        if self._execute is not None:
            return await self._execute(name, arguments, ctx)
        if tool.spec.id in self.disabled:
            raise refusal(f"{tool.spec.name} is disabled; nothing was run.", "disabled", FailureClass.FATAL)
        return await tool.run(ctx, arguments)

    def _own(self) -> list[Tool]:
        return [tool for called, tool in self._registered.entries.items() if called == tool.spec.name]

    def _set_registered(self, tools: Sequence[Tool]) -> None:
        made = StaticSource(REGISTERED, tools)
        for called in self._registered.entries:
            del self.static[called]
        others = tuple(source for source in self.sources if source is not self._registered)
        self.sources = (*others, made) if made.entries else others
        self._registered = made
        self.static.update(made.entries)

    async def _publish(self, event: Happening, item_id: str) -> None:
        if self._updates is not None:
            await asyncio.to_thread(self._updates.publish, "tools", event, item_id)
