"""Discovery: three tools that find and call all other tools, for lists too long to show (DISC-1, DISC-2).

Each of the three sees only the tools that the turn's user and agent may call. `execute_tool` is not a call of its own:
the pipeline runs the named tool, with that tool's deadline, policy and audit. Where programs can call tools, `execute`
is listed instead of it (CODE-5).
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.result import ToolCall
from engine.contract.source import PagedSource, Tool, ToolSource
from engine.contract.spec import META_TOOL, Annotations, Origin, ToolSpec
from engine.contract.tool_requests import ToolRequests
from engine.contract.turn import Turn
from engine.formats.spec_json import spec_to_json
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.turn.assembly import Assembly
from engine.turn.availability import DISCOVERY
from engine.turn.look_up import LookUp, everything
from engine.turn.paging import tool_page

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.turn.tool_index import ToolIndex

SOURCE = "discovery"
_READS = Annotations(read_only=True, idempotent=True)
_MOST_FOUND = 50
_MOST_LOOKED_AT = 1_000  # the most search results to examine; more than needed, since the turn may not call all of them
_PAGE = 100
_MOST_AGENTS = 1_000  # whose latest searches are remembered


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of tools, or the tools found by a search.

    Attributes:
        next: The value of `after` for the next page; "" on the last page.
        gap: What was not searched, and why; "" if everything was searched.
    """

    specs: Sequence[ToolSpec]
    next: str = ""
    gap: str = ""


class Discovery:
    """Finds, looks up and pages through the tools that a turn may call.

    The tools of a `PagedSource` are never read all at once: the source searches them itself. All other tools are
    indexed here, and the index is updated on each search.
    """

    def __init__(
        self,
        sources: Callable[[], Sequence[ToolSource]],
        assembly: Assembly,
        embedder: "Callable[[], Embedder]",
        requests: ToolRequests | None = None,
    ) -> None:
        """Create the service.

        Args:
            sources: Returns all sources except the source of the discovery tools.
            assembly: Builds the lists of tools.
            embedder: Returns the embedder. Called in a thread at the first search.
            requests: The requests for which tools have succeeded; None if they are not stored.
        """
        self._sources = sources
        self._assembly = assembly
        self._embedder = embedder
        self._requests = requests
        self._look_up = LookUp(assembly, sources)
        self._index: ToolIndex | None = None
        self._lock = asyncio.Lock()
        self._latest: OrderedDict[str, tuple[str, frozenset[str]]] = OrderedDict()

    async def search(self, query: str, turn: Turn, limit: int) -> Listing:
        """Return the tools that best match the query, best first, and remember what was found for this agent."""
        found = await self._search(query, turn, limit)
        if not turn.trial:
            self._latest[turn.agent_key] = (query, frozenset(spec.name for spec in found.specs))
            self._latest.move_to_end(turn.agent_key)
            if len(self._latest) > _MOST_AGENTS:
                self._latest.popitem(last=False)
        return found

    @property
    def searched(self) -> bool:
        """Whether any agent of this engine has searched for tools."""
        return bool(self._latest)

    def query_that_found(self, name: str, turn: Turn) -> str | None:
        """Return the query of this agent's latest search if it found the tool of this name; otherwise None."""
        query, names = self._latest.get(turn.agent_key, ("", frozenset()))
        return query if name in names else None

    async def _search(self, query: str, turn: Turn, limit: int) -> Listing:
        wanted = limit
        while True:
            found = await self._candidates(query, turn, wanted)
            if found.is_enough(limit, wanted) or wanted >= _MOST_LOOKED_AT:
                break
            wanted *= 5  # some of the results may not be callable in this turn
        async with self._lock:
            static = await asyncio.to_thread(self._ranked, query, list(found.others.values()), limit)
        best = _merged(static, *found.rankings)[:limit]
        specs = {**found.others, **found.acquired}
        return Listing([specs[name] for name in best if name in specs], gap="; ".join(found.gaps))

    async def page(self, turn: Turn, after: str = "") -> Listing:
        """Return the next page of tools, sorted by name.

        Args:
            turn: The turn.
            after: `Listing.next` of the previous page; "" for the first page.
        """
        found: list[ToolSpec] = []
        while True:
            page = await tool_page(self._assembly, self._sources(), everything(turn), after, _PAGE)
            found += [tool.spec for tool in page.listed.tools]
            after = page.next
            if not after or len(found) >= _PAGE:
                return Listing(sorted(found, key=lambda spec: spec.name), after)

    async def look_up(self, names: Collection[str], turn: Turn) -> dict[str, ToolSpec]:
        """Return the specs, by name, of those named tools that this turn may call."""
        return await self._look_up.specs(everything(turn), names)

    async def describe(self, name: str, turn: Turn) -> ToolSpec:
        """Return the spec of a tool.

        Raises:
            ToolFailure: There is no tool of this name that the turn may call. The message suggests similar names.
        """
        spec = (await self.look_up([name], turn)).get(name)
        if spec is None:
            near = await self._look_up.nearest(everything(turn), name)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise ToolFailure(f"There is no tool {name!r} that you may call.{hint}", reason="unknown_tool")
        return spec

    async def _candidates(self, query: str, turn: Turn, limit: int) -> "_Candidates":
        """Collect up to `limit` results of each paged source, and all tools of the other sources."""
        found = _Candidates()

        async def ask(source: ToolSource, turn: Turn) -> Sequence[Tool]:
            if not isinstance(source, PagedSource):
                return await source.tools(turn)
            matches = await source.search(query, limit)
            found.rankings.append([(one.tool.spec.name, one.fit) for one in matches.found])
            found.looked_at.append(len(matches.found))
            found.gaps.extend([matches.gap] if matches.gap else [])
            return [one.tool for one in matches.found]

        listed = await self._assembly.active_list(self._sources(), everything(turn), ask)
        names = {name for ranking in found.rankings for name, _ in ranking}
        for tool_ in listed.tools:
            spec = tool_.spec
            of_paged = spec.name in names and spec.origin is not Origin.STATIC  # a static tool of that name wins
            (found.acquired if of_paged else found.others)[spec.name] = spec
        found.rankings[:] = [[one for one in ranking if one[0] in found.acquired] for ranking in found.rankings]
        return found

    def _ranked(self, query: str, specs: Sequence[ToolSpec], limit: int) -> list[tuple[str, float]]:
        if self._index is None:
            from engine.turn.tool_index import ToolIndex  # noqa: PLC0415 -- numpy, which listing tools does not need

            self._index = ToolIndex(self._embedder(), self._requests)
        return self._index.ranked(query, specs, limit)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The tools that a query is compared with.

    Attributes:
        rankings: For each paged source, the results that the turn may call, each with a score of how well it fits.
        acquired: The specs of these results.
        others: The specs of all other tools.
        looked_at: How many results each paged source returned.
    """

    rankings: list[list[tuple[str, float]]] = field(default_factory=list)
    acquired: dict[str, ToolSpec] = field(default_factory=dict)
    others: dict[str, ToolSpec] = field(default_factory=dict)
    looked_at: list[int] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    def is_enough(self, limit: int, wanted: int) -> bool:
        """Return whether there are `limit` results, or each source returned fewer than the `wanted` ones requested."""
        return len(self.acquired) >= limit or all(found < wanted for found in self.looked_at)


def _merged(*ranked: Sequence[tuple[str, float]]) -> list[str]:
    """Merge rankings by fit, and keep the order within each ranking."""
    keyed: list[list[tuple[float, str]]] = []
    for each in ranked:
        least = inf
        keyed.append([(-(least := min(least, fit)), name) for name, fit in each])
    return list(dict.fromkeys(name for _, name in merge(*keyed, key=itemgetter(0))))


@tool(category=DISCOVERY, annotations=_READS, tier="low", meta={META_TOOL: True})
async def search_tools(
    ctx: CallContext, query: str = "", limit: int = 10, after: str = ""
) -> Produced[list[dict[str, str]]]:
    """Find tools by what they do. Returns names and short descriptions, best first; without a query, all tools.

    Args:
        query: What you want to do, in a few words.
        limit: Maximum number of results of a query.
        after: Without a query, where to continue when there are more tools than fit in one answer.
    """
    discovery = ctx.need(Discovery)
    if query.strip():
        found = await discovery.search(query, ctx.turn, max(1, min(limit, _MOST_FOUND)))
    else:
        found = await discovery.page(ctx.turn, after)
    value = [{"name": spec.name, "description": spec.summary} for spec in found.specs]
    remarks = [f"Not searched: {found.gap}."] if found.gap else []
    if found.next:
        remarks.append(f"There are more tools: search with a query, or continue with `after` set to {found.next!r}.")
    return Produced(value, "\n".join([json.dumps(value, ensure_ascii=False), *remarks]))


@tool(category=DISCOVERY, annotations=_READS, tier="low", meta={META_TOOL: True})
async def describe_tool(ctx: CallContext, name: str) -> dict[str, Any]:
    """Describe one tool: what it does, its arguments, what it returns, and what a call may change.

    Args:
        name: The tool's exact name.
    """
    spec = await ctx.need(Discovery).describe(name, ctx.turn)
    returns = () if spec.returns is None else ("returns",)
    return spec_to_json(spec, "name", "description", "parameters", *returns, "annotations", "side_effects")


@tool(category=DISCOVERY)
async def execute_tool(name: str, tool_args: dict[str, Any]) -> None:  # noqa: ARG001 -- they define the schema
    """Call a tool that you found, and return its result.

    Args:
        name: The tool's exact name.
        tool_args: Its arguments, as describe_tool shows them.
    """
    raise ToolFailure(
        f"{name} calls other tools, not itself. Name the tool that does the work.", may_have_started=False
    )


@dataclass(frozen=True, slots=True)
class Redirecting:
    """A tool that redirects its calls to another tool.

    Attributes:
        otherwise: Runs a call that cannot be redirected.
    """

    spec: ToolSpec
    otherwise: Tool

    def redirect(self, call: ToolCall) -> ToolCall | None:
        """Return the target call; None if the arguments do not name one."""
        name, arguments = call.arguments.get("name"), call.arguments.get("tool_args", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping) or name == self.spec.name:
            return None
        return replace(call, name=name, arguments=arguments)

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Refuse a call that could not be redirected."""
        return await self.otherwise.run(ctx, arguments)


class DiscoverySource(StaticSource):
    """Offers the three discovery tools, only to turns with the tool search flow.

    The only other tool on the lists of such turns is `execute`, which replaces `execute_tool` if its programs can call
    tools.
    """

    def __init__(self) -> None:
        super().__init__(SOURCE, (search_tools, describe_tool, Redirecting(execute_tool.spec, execute_tool)))

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        return await super().tools(turn) if turn.use_tool_search_flow else ()
