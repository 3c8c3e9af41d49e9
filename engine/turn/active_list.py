"""`active_list`: the tools of one turn, in one order that does not change from turn to turn.

Static tools by name, then acquired skills by name, then composed ones by name: the long unchanging part comes first,
so a provider's prompt cache keeps hitting, and the same inputs give the same bytes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.contract.source import Tool, ToolSource
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.turn.availability import Dropped, available, by_search_alone, enabled, permitted, without_deferred
from engine.turn.gather import SOURCE_TIMEOUT_S, SourceFailure, gather


@dataclass(frozen=True, slots=True)
class ListContext:
    """What the stages of one list share.

    offered: everything the sources offer this turn. configured: requirements that are met (`ToolSpec.requires`).
    reserved: names and aliases of static tools, also of those not offered: nothing acquired may take one.
    """

    turn: Turn
    offered: tuple[Tool, ...] = ()
    configured: frozenset[str] = field(default_factory=frozenset)
    reserved: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class ActiveList:
    """tools: in order, names unique. dropped: what exists and is not offered. failed: sources that gave nothing."""

    tools: tuple[Tool, ...]
    dropped: tuple[Dropped, ...] = ()
    failed: tuple[SourceFailure, ...] = ()


async def active_list(
    sources: Sequence[ToolSource],
    turn: Turn,
    configured: frozenset[str] = frozenset(),
    *,
    timeout_s: float = SOURCE_TIMEOUT_S,
    disabled: Callable[[], Mapping[str, str]] = dict,
) -> ActiveList:
    """The tools of a turn, and what was left out and why. Never raises for what a source does.

    The sources see the turn, so the one of acquired skills offers those that fit the query, or all without one.
    disabled: since when tools are, by id; asked when the sources have answered.
    """
    gathered = await gather(sources, turn, timeout_s=timeout_s)
    context = list_context(gathered.offered, turn, configured)
    tools, doubled = static_tools(context)
    tools, shadowing = append_acquired(tools, context)
    tools, unusable = _append(tools, context, Origin.COMPOSED)
    tools, off = enabled(tools, disabled())
    tools, unavailable = available(tools, turn, configured)
    tools, forbidden = permitted(tools, turn)
    tools, deferred = without_deferred(tools, turn)
    tools, hidden = by_search_alone(tools, turn)
    dropped = [*doubled, *shadowing, *unusable, *off, *unavailable, *forbidden, *deferred, *hidden]
    return ActiveList(tuple(tools), tuple(sorted(dropped, key=lambda each: each.name)), gathered.failed)


def list_context(offered: tuple[Tool, ...], turn: Turn, configured: frozenset[str]) -> ListContext:
    """The context of a list, with the reserved names taken from what is offered."""
    reserved = frozenset(
        name for tool in offered if tool.spec.origin is Origin.STATIC for name in (tool.spec.name, *tool.spec.aliases)
    )
    return ListContext(turn, offered, configured, reserved)


def static_tools(context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """Built-ins and packs, sorted by name; of two of one name the first source's."""
    return _unique([], _of(context, Origin.STATIC))


def append_acquired(active_tools: Sequence[Tool], context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """Acquired skills, sorted by name, after the static tools. One that would shadow a static tool is refused."""
    return _append(active_tools, context, Origin.ACQUIRED)


def register_composed_skills(active_tools: Sequence[Tool], context: ListContext) -> list[Tool]:
    """`active_tools` with the composed skills after them, sorted by name; names stay unique, nothing is shadowed."""
    return _append(active_tools, context, Origin.COMPOSED)[0]


def _append(active_tools: Sequence[Tool], context: ListContext, origin: Origin) -> tuple[list[Tool], list[Dropped]]:
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in _of(context, origin):
        name = tool.spec.name
        if name in context.reserved:
            dropped.append(Dropped(name, f"its name shadows a static tool; rename the {origin} one"))
        else:
            kept.append(tool)
    tools, doubled = _unique(active_tools, kept)
    return tools, dropped + doubled


def _unique(before: Sequence[Tool], more: Iterable[Tool]) -> tuple[list[Tool], list[Dropped]]:
    tools = list(before)
    taken = {tool.spec.name for tool in before}
    dropped: list[Dropped] = []
    for tool in more:
        if tool.spec.name in taken:
            dropped.append(Dropped(tool.spec.name, f"a second {tool.spec.origin} tool of this name"))
        else:
            taken.add(tool.spec.name)
            tools.append(tool)
    return tools, dropped


def _of(context: ListContext, origin: Origin) -> list[Tool]:
    """Stable: tools of one name stay in the order of their sources."""
    return sorted((tool for tool in context.offered if tool.spec.origin is origin), key=lambda tool: tool.spec.name)
