"""Looks up tools of a turn by name, without reading all tools of a `PagedSource`."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.contract.source import PagedSource, Tool, ToolSource
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.registry.nearest import nearest
from engine.turn.active_list import ActiveList
from engine.turn.assembly import Assembly

_OVER = 5  # look up this many times more names than requested, because the turn may not call all of them


def everything(turn: Turn) -> Turn:
    """Return a copy of the turn whose list has all tools, also deferred ones and skills unrelated to the query."""
    return replace(turn, query=None, include_deferred_tools=True, use_tool_search_flow=False)


@dataclass(frozen=True, slots=True)
class LookUp:
    """Looks up the tools on a turn's list, by name or alias.

    In a turn with the tool search flow, whose list has only the discovery tools, it looks up what these tools find.

    Attributes:
        sources: Returns the sources. Called for each look-up.
    """

    assembly: Assembly
    sources: Callable[[], Sequence[ToolSource]]

    async def specs(self, turn: Turn, names: Collection[str]) -> dict[str, ToolSpec]:
        """Return the specs of the listed tools with these names or aliases, by the requested name or alias."""

        async def ask(source: ToolSource, turn: Turn) -> Sequence[Tool]:
            if not isinstance(source, PagedSource) or turn.query:
                return await source.tools(turn)
            found = [await source.listed(name) for name in sorted(names)]
            return [tool for tool in found if tool is not None]

        listed = await self.assembly.active_list(self.sources(), _of(turn), ask)
        return {called: spec for called, spec in _called(listed) if called in names}

    async def nearest(self, turn: Turn, name: str, limit: int = 3) -> list[str]:
        """Return the names and aliases of callable tools that are most similar to `name`, best first."""
        known: set[str] = set()

        async def ask(source: ToolSource, turn: Turn) -> Sequence[Tool]:
            if not isinstance(source, PagedSource) or turn.query:
                return await source.tools(turn)
            known.update(await source.names())
            return ()

        listed = await self.assembly.active_list(self.sources(), _of(turn), ask)
        known |= {called for called, _ in _called(listed)}
        near = await asyncio.to_thread(nearest, name, known, limit * _OVER)
        allowed = await self.specs(turn, near)
        return [each for each in near if each in allowed][:limit]


def _of(turn: Turn) -> Turn:
    return everything(turn) if turn.use_tool_search_flow else turn


def _called(listed: ActiveList) -> Iterator[tuple[str, ToolSpec]]:
    """Yield every name and alias, with the spec of its tool."""
    for tool in listed.tools:
        for name in (*tool.spec.aliases, tool.spec.name):
            yield name, tool.spec
