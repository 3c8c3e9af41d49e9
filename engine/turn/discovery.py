"""Discovery: three tools that stand for all others, for lists too long to show (DISC-1, DISC-2).

Each of them sees what the turn's user and agent may call, and nothing else. `execute_tool` is no call of its own: the
pipeline runs the tool it names, with that tool's deadline, policy and audit.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.contract.result import ToolCall
from engine.contract.source import Tool, ToolSource
from engine.contract.spec import Annotations, ToolSpec
from engine.contract.turn import Turn
from engine.formats.spec_json import spec_to_json
from engine.registry.decorate import tool
from engine.registry.nearest import nearest
from engine.registry.static import StaticSource
from engine.turn.assembly import Assembly
from engine.turn.availability import DISCOVERY

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.turn.tool_index import ToolIndex

SOURCE = "discovery"
_READS = Annotations(read_only=True, idempotent=True)
_MOST_FOUND = 50


class Discovery:
    """Everything a turn may call, and an index over it that is brought up to date when it is asked."""

    def __init__(
        self,
        sources: Callable[[], Sequence[ToolSource]],
        assembly: Assembly,
        embedder: "Callable[[], Embedder]",
    ) -> None:
        """sources: all but this one's own. embedder: called at the first search, in a thread: it takes a second."""
        self._sources = sources
        self._assembly = assembly
        self._embedder = embedder
        self._index: ToolIndex | None = None
        self._lock = asyncio.Lock()

    async def allowed(self, turn: Turn) -> dict[str, ToolSpec]:
        """What may be called in this turn, by name: deferred tools and every listed skill among it."""
        everything = replace(turn, query=None, include_deferred_tools=True, use_tool_search_flow=False)
        listed = await self._assembly.active_list(self._sources(), everything)
        return {each.spec.name: each.spec for each in listed.tools}

    async def search(self, query: str, turn: Turn, limit: int) -> list[ToolSpec]:
        """The tools nearest to the query, best first; without one all of them, by name."""
        specs = await self.allowed(turn)
        if not query.strip():
            return [specs[name] for name in sorted(specs)]
        async with self._lock:
            ranked = await asyncio.to_thread(self._ranked, query, list(specs.values()), limit)
        return [specs[name] for name in ranked]

    async def describe(self, name: str, turn: Turn) -> ToolSpec:
        """The tool of this name. Raises ToolFailure, naming the nearest, when the turn has none."""
        specs = await self.allowed(turn)
        if name not in specs:
            near = await asyncio.to_thread(nearest, name, set(specs), 3)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise ToolFailure(f"There is no tool called {name!r} for you.{hint}", reason="unknown_tool")
        return specs[name]

    def _ranked(self, query: str, specs: Sequence[ToolSpec], limit: int) -> list[str]:
        if self._index is None:
            from engine.turn.tool_index import ToolIndex  # noqa: PLC0415 -- numpy, which listing tools does not need

            self._index = ToolIndex(self._embedder())
        return self._index.ranked(query, specs, limit)


@tool(category=DISCOVERY, annotations=_READS, tier="low")
async def search_tools(ctx: CallContext, query: str = "", limit: int = 10) -> list[dict[str, str]]:
    """Find tools by what they do. Gives names and short descriptions, the best first; without a query all of them.

    Args:
        query: What you want to do, in a few words.
        limit: How many to give for a query.
    """
    found = await ctx.need(Discovery).search(query, ctx.turn, max(1, min(limit, _MOST_FOUND)))
    return [{"name": spec.name, "description": spec.summary} for spec in found]


@tool(category=DISCOVERY, annotations=_READS, tier="low")
async def describe_tool(ctx: CallContext, name: str) -> dict[str, Any]:
    """Say all about one tool: what it does, which arguments it takes, what it returns, and what a call may change.

    Args:
        name: The tool's exact name.
    """
    spec = await ctx.need(Discovery).describe(name, ctx.turn)
    returns = () if spec.returns is None else ("returns",)
    return spec_to_json(spec, "name", "description", "parameters", *returns, "annotations", "side_effects")


@tool(category=DISCOVERY)
async def execute_tool(name: str, tool_args: dict[str, Any]) -> None:  # noqa: ARG001 -- the arguments it offers
    """Call a tool that you found. Its result is the answer.

    Args:
        name: The tool's exact name.
        tool_args: Its arguments, as describe_tool shows them.
    """
    raise ToolFailure(
        f"{name} calls other tools, not itself. Name the tool that does the work.", may_have_started=False
    )


@dataclass(frozen=True, slots=True)
class Redirecting:
    """A tool whose calls are calls of another one."""

    spec: ToolSpec
    otherwise: Tool

    def redirect(self, call: ToolCall) -> ToolCall | None:
        """The call it stands for; None when its arguments do not name one."""
        name, arguments = call.arguments.get("name"), call.arguments.get("tool_args", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping) or name == self.spec.name:
            return None
        return replace(call, name=name, arguments=arguments)

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Only what could not be redirected comes here."""
        return await self.otherwise.run(ctx, arguments)


class DiscoverySource(StaticSource):
    """The three tools: the whole list of a turn that asked for the tool search flow, and on no other."""

    def __init__(self) -> None:
        super().__init__(SOURCE, (search_tools, describe_tool, Redirecting(execute_tool.spec, execute_tool)))

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        return await super().tools(turn) if turn.use_tool_search_flow else ()
