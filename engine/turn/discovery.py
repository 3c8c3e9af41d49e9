"""`Discovery`: finds, looks up and pages through the tools that a turn may call (DISC-1)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.contract.failure import ToolFailure
from engine.contract.source import PagedSource, Tool, ToolSource
from engine.contract.spec import Origin, ToolSpec
from engine.contract.tool_requests import ToolRequests
from engine.contract.turn import Turn
from engine.turn.assembly import Assembly
from engine.turn.look_up import LookUp, everything
from engine.turn.paging import tool_page
from engine.turn.tool_fit import RatedTools, ToolFit, merged

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.turn.tool_index import ToolIndex

_MOST_LOOKED_AT = 1_000  # the most search results to examine; more than needed, since the turn may not call all of them
_MOST_NEAREST = 5  # the nearest tools that are named if nothing fits
_PAGE = 100
_MOST_AGENTS = 1_000  # whose latest searches are remembered


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of tools, or the tools found by a search.

    Attributes:
        next: The value of `after` for the next page; "" on the last page.
        gap: What was not searched, and why; "" if everything was searched.
        nearest: If nothing fits, the tools that are nearest to the query nevertheless.
        least: The least probability at which a tool fits.
    """

    specs: Sequence[ToolSpec]
    next: str = ""
    gap: str = ""
    nearest: Sequence[ToolFit] = ()
    least: float = 0.0


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
        *,
        fits: float = 0.0,
    ) -> None:
        """Create the service.

        Args:
            sources: Returns all sources except the source of the discovery tools.
            assembly: Builds the lists of tools.
            embedder: Returns the embedder. Called in a thread at the first search.
            requests: The requests for which tools have succeeded; None if they are not stored.
            fits: The least probability of being useful at which a tool is said to fit. With 0, every tool fits.
        """
        self._fits = fits
        self._sources = sources
        self._assembly = assembly
        self._embedder = embedder
        self._requests = requests
        self._look_up = LookUp(assembly, sources)
        self._index: ToolIndex | None = None
        self._lock = asyncio.Lock()
        self._latest: OrderedDict[str, tuple[str, frozenset[str]]] = OrderedDict()

    async def search(self, query: str, turn: Turn, limit: int) -> Listing:
        """Return the tools that best match the query, best first, and remember what was found for this agent.

        If no tool fits, the listing has no tools, but the nearest ones as such.
        """
        rated, specs = await self._search(query, turn, limit)
        shown = rated.found if rated.any_fits else rated.found[:_MOST_NEAREST]
        if not turn.trial:
            self._latest[turn.agent_key] = (query, frozenset(one.name for one in shown))
            self._latest.move_to_end(turn.agent_key)
            if len(self._latest) > _MOST_AGENTS:
                self._latest.popitem(last=False)
        if not rated.any_fits:
            return Listing((), gap=rated.gap, nearest=shown, least=rated.least)
        return Listing([specs[one.name] for one in shown], gap=rated.gap)

    async def rate(self, query: str, turn: Turn, limit: int) -> RatedTools:
        """Return how well the tools fit that best match the query, whether or not they fit. Nothing is remembered."""
        return (await self._search(query, turn, limit))[0]

    @property
    def searched(self) -> bool:
        """Whether any agent of this engine has searched for tools."""
        return bool(self._latest)

    def query_that_found(self, name: str, turn: Turn) -> str | None:
        """Return the query of this agent's latest search if it found the tool of this name; otherwise None."""
        query, names = self._latest.get(turn.agent_key, ("", frozenset()))
        return query if name in names else None

    async def _search(self, query: str, turn: Turn, limit: int) -> tuple[RatedTools, Mapping[str, ToolSpec]]:
        """Return up to `limit` matching tools, and their specs by name."""
        wanted = limit
        while True:
            found = await self._candidates(query, turn, wanted)
            if found.is_enough(limit, wanted) or wanted >= _MOST_LOOKED_AT:
                break
            wanted *= 5  # some of the results may not be callable in this turn
        async with self._lock:
            static = await asyncio.to_thread(self._ranked, query, list(found.others.values()), limit)
        specs = {**found.others, **found.acquired}
        best = [one for one in merged(static, *found.rankings) if one.name in specs]
        notes = "; ".join(dict.fromkeys(found.notes))
        return RatedTools(best[:limit], self._fits, "; ".join(found.gaps), notes), specs

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
            found.rankings.append([ToolFit(one.tool.spec.name, one.fit, one.evidence) for one in matches.found])
            found.looked_at.append(len(matches.found))
            found.gaps.extend([matches.gap] if matches.gap else [])
            found.notes.extend([matches.ranking] if matches.ranking else [])
            return [one.tool for one in matches.found]

        listed = await self._assembly.active_list(self._sources(), everything(turn), ask)
        names = {one.name for ranking in found.rankings for one in ranking}
        for tool_ in listed.tools:
            spec = tool_.spec
            of_paged = spec.name in names and spec.origin is not Origin.STATIC  # a static tool of that name wins
            (found.acquired if of_paged else found.others)[spec.name] = spec
        found.rankings[:] = [[one for one in ranking if one.name in found.acquired] for ranking in found.rankings]
        return found

    def _ranked(self, query: str, specs: Sequence[ToolSpec], limit: int) -> list[ToolFit]:
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
        gaps: What was not searched.
        notes: Which learned rankings were used.
    """

    rankings: list[list[ToolFit]] = field(default_factory=list)
    acquired: dict[str, ToolSpec] = field(default_factory=dict)
    others: dict[str, ToolSpec] = field(default_factory=dict)
    looked_at: list[int] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def is_enough(self, limit: int, wanted: int) -> bool:
        """Return whether there are `limit` results, or each source returned fewer than the `wanted` ones requested."""
        return len(self.acquired) >= limit or all(found < wanted for found in self.looked_at)
