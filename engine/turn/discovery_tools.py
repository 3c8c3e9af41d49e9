"""The three tools that find and call all other tools, for lists too long to show (DISC-1, DISC-2).

Each of the three sees only the tools that the turn's user and agent may call. `execute_tool` is not a call of its own:
the pipeline runs the named tool, with that tool's deadline, policy and audit. Where programs can call tools, `execute`
is listed instead of it (CODE-5).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.result import ToolCall
from engine.contract.source import Tool
from engine.contract.spec import META_TOOL, Annotations, ToolSpec
from engine.contract.turn import Turn
from engine.formats.spec_json import spec_to_json
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.turn.availability import DISCOVERY
from engine.turn.discovery import Discovery, Listing

SOURCE = "discovery"
_READS = Annotations(read_only=True, idempotent=True)
_MOST_FOUND = 50


@tool(category=DISCOVERY, annotations=_READS, tier="low", meta={META_TOOL: True})
async def search_tools(
    ctx: CallContext, query: str = "", limit: int = 10, after: str = ""
) -> Produced[list[dict[str, str]]]:
    """Find tools by what they do. Returns names and short descriptions, best first; without a query, all tools.

    If no tool is likely to be useful, the answer says that nothing fits, and names the nearest tools.

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
    remarks = [_nothing_fits(found)] if query.strip() and not found.specs else []
    if found.gap:
        remarks.append(f"Not searched: {found.gap}.")
    if found.next:
        remarks.append(f"There are more tools: search with a query, or continue with `after` set to {found.next!r}.")
    return Produced(value, "\n".join([json.dumps(value, ensure_ascii=False), *remarks]))


def _nothing_fits(found: Listing) -> str:
    """Return the answer to a query that no tool fits."""
    what = f"Nothing fits: no tool is at least {found.least:.0%} likely to be useful."
    names = ", ".join(f"{one.name} ({one.fit:.0%})" for one in found.nearest)
    nearest = f" Nearest: {names}." if names else ""
    return f"{what}{nearest} Search with other words, or do without a tool."


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
