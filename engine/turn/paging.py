"""`tool_page`: pages through the tools of a turn that has no query. So callers need not load all skills at once."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from engine.contract.source import PagedSource, Tool, ToolSource
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.turn.active_list import ActiveList
from engine.turn.assembly import Assembly

PAGE = 1_000  # default number of acquired tools per page


@dataclass(frozen=True, slots=True)
class ToolPage:
    """One page of a list.

    Attributes:
        next: The value of `after` for the next page; "" on the last page.
    """

    listed: ActiveList
    next: str = ""


async def tool_page(
    assembly: Assembly, sources: Sequence[ToolSource], turn: Turn, after: str = "", limit: int = PAGE
) -> ToolPage:
    """Return one page of a turn's list.

    The first page contains all tools of ordinary sources. Every page contains the next tools of each `PagedSource`. If
    there is only one page, it is the turn's whole list. A turn with a query, or with the tool search flow (which lists
    only the discovery tools), has only one page.

    Args:
        assembly: Builds the list.
        sources: The sources.
        turn: The turn.
        after: `ToolPage.next` of the previous page; "" for the first page.
        limit: How many tools of paged sources to read. The page contains fewer if the turn may not call some of them.
    """
    if turn.query or turn.use_tool_search_flow:
        return ToolPage(ActiveList(()) if after else await assembly.active_list(sources, turn))
    paged = {source.name: source for source in sources if isinstance(source, PagedSource)}
    read: dict[str, list[Tool]] = {name: [] for name in paged}

    async def ask(source: ToolSource, turn: Turn) -> Sequence[Tool]:
        if source.name not in paged:
            return await source.tools(turn)
        read[source.name] += await paged[source.name].page(after, limit)
        return read[source.name]

    listed = await assembly.active_list(sources, turn, ask)
    there = {tool.spec.name for tools in read.values() for tool in tools}
    names = set(nsmallest(limit, there))  # later names go on the next page, so that all sources advance together
    more = len(there) > len(names) or any(len(tools) >= limit for tools in read.values())

    def is_here(name: str, origin: Origin | None = None) -> bool:
        if origin is Origin.STATIC or name not in there:
            return not after
        return name in names

    tools = tuple(tool for tool in listed.tools if is_here(tool.spec.name, tool.spec.origin))
    dropped = tuple(each for each in listed.dropped if is_here(each.name))
    if after:  # clashes with static tools were already reported on the first page
        dropped = tuple({each.name: each for each in dropped}.values())
    return ToolPage(ActiveList(tools, dropped, listed.failed), max(names) if more else "")


async def tool_pages(
    assembly: Assembly, sources: Sequence[ToolSource], turn: Turn, limit: int = PAGE
) -> AsyncIterator[ActiveList]:
    """Yield the lists of all pages."""
    after = ""
    while True:
        page = await tool_page(assembly, sources, turn, after, limit)
        yield page.listed
        after = page.next
        if not after:
            return
