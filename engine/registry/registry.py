"""`Registry`: everything that exists, by name, over all sources. What is offered this turn is `engine.turn`'s.

Three things change while it is open: tools are registered in this process (`register`), sources change by themselves
(skills, modules, the file of registered tools), and tools of any source are disabled and enabled.
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
    """Where it is kept which tools are disabled. `engine.registry.file_tools.FileTools` keeps it in the home."""

    @property
    def disabled(self) -> Mapping[str, str]:
        """Since when, by id."""
        ...

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        """Disable or enable; False when it was so already."""
        ...


class MemorySwitches:
    """For a registry without a home."""

    def __init__(self) -> None:
        self.disabled: dict[str, str] = {}

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        changed = (spec_id in self.disabled) != disabled
        self.disabled.pop(spec_id, None)
        if disabled:
            self.disabled[spec_id] = "this start"
        return changed


@runtime_checkable
class Owning(Protocol):
    """A changing source whose tools an operator puts there, so that nothing acquired may take their names."""

    def names(self) -> frozenset[str]: ...

    async def delete(self, name: str) -> bool:
        """Delete a tool, by name or alias. False when there is none."""
        ...


class Registry:
    """Looks tools up over several sources.

    A static tool always wins over one of the same name from a source that changes (skills, remote modules), so
    nothing acquired can shadow it. Raises RegistryError when two static sources claim one name or alias, or two
    sources have one name.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        switches: Switches | None = None,
        updates: RegistryUpdates | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        """updates: where changes are told, if anywhere. problems: what was left out when it was populated."""
        self.problems = tuple(problems)
        # Static ones first, as they are in `find`: of two tools of one name the list has the one that is called.
        self._sources = tuple(sorted(sources, key=lambda source: not isinstance(source, StaticSource)))
        self._switches: Switches = switches or MemorySwitches()
        self._updates = updates
        self._registered = StaticSource(REGISTERED, ())
        self._execute: Execute | None = None
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

    def joined(self, sources: Sequence[ToolSource]) -> "Registry":
        """A registry of these sources, too. Raises RegistryError. Join before anything is registered."""
        return Registry((*self._sources, *sources), switches=self._switches, updates=self._updates)

    @property
    def sources(self) -> tuple[ToolSource, ...]:
        return (*self._sources, self._registered) if self._registered.entries else self._sources

    @property
    def disabled(self) -> Mapping[str, str]:
        """Since when tools are disabled, by id."""
        return self._switches.disabled

    def static_names(self) -> frozenset[str]:
        """Every name and alias of a static or registered tool: names that nothing acquired may take."""
        owned = (source.names() for source in self._changing if isinstance(source, Owning))
        return frozenset(self._static).union(*owned)

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

    async def get(self, name: str) -> Tool:
        """As `find`, disabled tools included. Raises ToolNotFound, naming the nearest."""
        tool = await self.find(name)
        if tool is None:
            near = ", ".join(await self.nearest(name))
            raise ToolNotFound(f"There is no tool {name!r}." + (f" Nearest: {near}." if near else ""))
        return tool

    async def get_metadata(self, name: str) -> ToolSpec:
        """The spec of a tool, by its name or alias, else by its id. Raises ToolNotFound."""
        tool = await self.find(name)
        if tool is not None:
            return tool.spec
        for each in await self.all_tools(include_disabled=True):
            if each.spec.id == name:
                return each.spec
        return (await self.get(name)).spec

    async def all_primary_names(self) -> list[str]:
        """The names of all tools, without their aliases, sorted."""
        return [tool.spec.name for tool in await self.all_tools(include_disabled=True)]

    async def register(self, tool: Tool) -> None:
        """Add a tool to this process, until it is deleted.

        Raises RegistryError when a name, an alias or the prefix of its tag is taken, or its tag cannot be used.
        """
        check_tag(tool.spec)
        for called in (tool.spec.name, *tool.spec.aliases):
            other = await self.find(called)
            if other is not None:
                raise RegistryError(
                    f"{tool.spec.name} cannot be registered: the name {called!r} is claimed by {other.spec.name!r}. "
                    "Rename it, remove the alias, or delete the other one first."
                )
        if tool.spec.tag is not None:
            for each in await self.all_tools(include_disabled=True):
                if each.spec.tag is not None and each.spec.tag.tag_prefix == tool.spec.tag.tag_prefix:
                    raise RegistryError(
                        f"{tool.spec.name} cannot be registered: its tag's prefix {tool.spec.tag.tag_prefix!r} is that "
                        f"of {each.spec.name!r}. Choose another."
                    )
        self._set_registered([*self._own(), tool])
        await self._tell("upsert", tool.spec.id)

    async def disable(self, name: str) -> bool:
        """Neither offer nor run a tool of any source, until it is enabled. False when it was disabled.

        Raises ToolNotFound.
        """
        return await self._switches.set_disabled((await self.get(name)).spec.id, disabled=True)

    async def enable(self, name: str) -> bool:
        """False when it was not disabled. By its id, a tool may be enabled though it is gone."""
        spec_id = name if name in self.disabled else (await self.get(name)).spec.id
        return await self._switches.set_disabled(spec_id, disabled=False)

    async def delete(self, name: str) -> None:
        """Delete a registered tool. Raises ToolNotFound, RegistryError for one that came with a source."""
        tool = await self.get(name)
        if self._registered.entries.get(name) is not None:
            self._set_registered([each for each in self._own() if each is not tool])
            await self._switches.set_disabled(tool.spec.id, disabled=False)
            await self._tell("delete", tool.spec.id)
            return
        for source in self._changing:
            if isinstance(source, Owning) and await source.delete(name):
                return
        raise RegistryError(f"{tool.spec.name} was not registered, so it cannot be deleted. Disable it instead.")

    async def all_tools(self, turn: Turn | None = None, *, include_disabled: bool = False) -> list[Tool]:
        """Every tool of every source, sorted by name; where names collide the first source wins, static first."""
        asked = turn or Turn()
        found = {tool.spec.name: tool for tool in self._static.values()}
        for source in self._changing:
            for tool in await source.tools(asked):
                if tool.spec.name not in self._static:
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
        """The names (or aliases) most like this one, best first. A source that cannot answer is left out.

        turn: who asks. may_know: whether they may be told of a tool.
        """
        names = {called for called, tool in self._static.items() if may_know(tool.spec)}
        for source in self._changing:
            try:
                tools = [tool for tool in await source.tools(turn or Turn()) if may_know(tool.spec)]
            except Exception as error:  # noqa: BLE001 - a hint must not hide the error it belongs to
                _log.warning("Tool source %r gave no names to compare with: %s", source.name, error)
                continue
            names.update(called for tool in tools for called in (tool.spec.name, *tool.spec.aliases))
        return await asyncio.to_thread(nearest, name, names, limit)

    def execute_through(self, execute: Execute) -> None:
        """From now on `execute` makes its calls through this, which applies every check."""
        self._execute = execute

    async def execute(self, name: str, arguments: Mapping[str, Any], ctx: Any = None) -> Any:
        """Run a tool on behalf of somebody.

        In an engine: limits, the eval gate and every other check, then the tool, as `Engine.call` does it; gives the
        `ToolResult`. ctx: on whose behalf, as a `Turn`, a `ToolContext` or the `CallContext` of a tool that makes the
        call. Raises ToolNotFound for an unknown name, and ToolRateLimited for a call that comes too early.

        In a registry without an engine: the tool as it is, without any check. ctx is the tool's; gives what the tool
        returns, and raises what it raises, and ToolFailure for one that is disabled.
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
            del self._static[called]
        self._registered = made
        self._static.update(made.entries)

    async def _tell(self, event: Happening, item_id: str) -> None:
        if self._updates is not None:
            await asyncio.to_thread(self._updates.tell, "tools", event, item_id)
