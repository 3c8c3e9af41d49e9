"""`active_list`: the tools of a turn, in a stable order.

Static tools by name come first, then acquired skills, then composed skills. The long constant part comes first, so that
providers' prompt caches keep hitting; equal inputs give equal bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool
from engine.contract.spec import Origin
from engine.turn.availability import Dropped, Tools
from engine.turn.gather import SourceFailure


@dataclass(frozen=True, slots=True)
class Offered:
    """What the sources offer, by origin and name. Tools of the same name keep the order of their sources."""

    static: Tools = ()
    acquired: Tools = ()
    composed: Tools = ()

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Offered":
        by_origin: dict[Origin, list[Tool]] = {origin: [] for origin in Origin}
        for tool in tools:
            by_origin[tool.spec.origin].append(tool)
        for each in by_origin.values():
            each.sort(key=_name)
        return cls(*(tuple(by_origin[origin]) for origin in (Origin.STATIC, Origin.ACQUIRED, Origin.COMPOSED)))


@dataclass(frozen=True, slots=True)
class ListContext:
    """The context in which skills are added to a list.

    offered: everything that the sources offer this turn. reserved: names and aliases of all static tools, including
        those
    that are not listed: nothing acquired may take one.
    """

    offered: Offered
    reserved: frozenset[str]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "ListContext":
        offered = Offered.of(tools)
        return cls(offered, reserved_names(offered.static))


@dataclass(frozen=True, slots=True)
class ActiveList:
    """The list of a turn.

    tools: in order, with unique names. dropped: tools that exist and are not offered. failed: sources that failed.
    """

    tools: Tools
    dropped: tuple[Dropped, ...] = ()
    failed: tuple[SourceFailure, ...] = ()


def reserved_names(static: Tools) -> frozenset[str]:
    """Return the names and aliases of the tools."""
    return frozenset(name for tool in static for name in (tool.spec.name, *tool.spec.aliases))


def static_tools(offered: Tools) -> tuple[list[Tool], list[Dropped]]:
    """Built-in tools and packs, sorted by name. On a name clash the first source wins."""
    return _unique(frozenset(), offered)


def append_acquired(active_tools: Sequence[Tool], context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """Append the acquired skills to `active_tools`, sorted by name, without those that would shadow a tool."""
    return _after(active_tools, context.offered.acquired, context.reserved)


def register_composed_skills(active_tools: Sequence[Tool], context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """Append the composed skills to `active_tools`, sorted by name, without those that would shadow a tool."""
    return _after(active_tools, context.offered.composed, context.reserved)


def _after(active: Sequence[Tool], skills: Tools, reserved: frozenset[str]) -> tuple[list[Tool], list[Dropped]]:
    if not skills:
        return list(active), []
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in skills:
        spec = tool.spec
        if spec.name in reserved:
            dropped.append(Dropped(spec.name, f"its name shadows a static tool; rename the {spec.origin} one"))
        else:
            kept.append(tool)
    more, doubled = _unique(_names(active), kept)
    return [*active, *more], dropped + doubled


def _unique(taken: frozenset[str], tools: Iterable[Tool]) -> tuple[list[Tool], list[Dropped]]:
    """Return the sorted tools, without taken and duplicate names."""
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    before = None
    for tool in tools:
        name = tool.spec.name
        if name == before or name in taken:
            dropped.append(Dropped(name, f"a duplicate {tool.spec.origin} tool of this name"))
        else:
            before = name
            kept.append(tool)
    return kept, dropped


def _names(tools: Iterable[Tool]) -> frozenset[str]:
    return frozenset(tool.spec.name for tool in tools)


def _name(tool: Tool) -> str:
    return tool.spec.name
