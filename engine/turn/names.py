"""`names_of_turn`: what the tools of a turn are called, for hints that name a tool to a model."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from engine.contract.source import ToolSource
from engine.contract.turn import Turn
from engine.turn.assembly import Assembly


def names_of_turn(
    sources: Callable[[], Sequence[ToolSource]], assembly: Assembly
) -> Callable[[Turn], Awaitable[frozenset[str]]]:
    """A function that gives the names and aliases of the tools on a turn's list.

    For a turn with the tool search flow: of those that search can find.
    """

    async def names(turn: Turn) -> frozenset[str]:
        listed = turn
        if turn.use_tool_search_flow:
            listed = replace(turn, query=None, include_deferred_tools=True, use_tool_search_flow=False)
        found = await assembly.active_list(sources(), listed)
        return frozenset(name for tool in found.tools for name in (tool.spec.name, *tool.spec.aliases))

    return names
