"""`active_list`: the tools of one turn, in one order that does not change from turn to turn.

Static tools by name, then acquired skills by name, then composed ones by name: the long unchanging part comes first,
so a provider's prompt cache keeps hitting, and the same inputs give the same bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool
from engine.contract.spec import Origin
from engine.turn.availability import Dropped, Tools
from engine.turn.gather import SourceFailure


@dataclass(frozen=True, slots=True)
class Offered:
    """What sources offer, by origin, each by name; tools of one name are in the order of their sources."""

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
    """What the skills of one list are put into.

    offered: everything the sources offer this turn. reserved: names and aliases of static tools, also of those that are
    not on the list: nothing acquired may take one.
    """

    offered: Offered
    reserved: frozenset[str]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "ListContext":
        offered = Offered.of(tools)
        return cls(offered, reserved_names(offered.static))


@dataclass(frozen=True, slots=True)
class ActiveList:
    """tools: in order, names unique. dropped: what exists and is not offered. failed: sources that gave nothing."""

    tools: Tools
    dropped: tuple[Dropped, ...] = ()
    failed: tuple[SourceFailure, ...] = ()


def reserved_names(static: Tools) -> frozenset[str]:
    """Names and aliases."""
    return frozenset(name for tool in static for name in (tool.spec.name, *tool.spec.aliases))


def static_tools(offered: Tools) -> tuple[list[Tool], list[Dropped]]:
    """Built-ins and packs, sorted by name; of two of one name the first source's."""
    return _unique(frozenset(), offered)


def append_acquired(active_tools: Sequence[Tool], context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """`active_tools` with the acquired skills after them, sorted by name, without those that would shadow a tool."""
    return _after(active_tools, context.offered.acquired, context.reserved)


def register_composed_skills(active_tools: Sequence[Tool], context: ListContext) -> tuple[list[Tool], list[Dropped]]:
    """`active_tools` with the composed skills after them, sorted by name; names stay unique, nothing is shadowed."""
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
    """Sorted tools, without names that are taken and without the second of a name."""
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    before = None
    for tool in tools:
        name = tool.spec.name
        if name == before or name in taken:
            dropped.append(Dropped(name, f"a second {tool.spec.origin} tool of this name"))
        else:
            before = name
            kept.append(tool)
    return kept, dropped


def _names(tools: Iterable[Tool]) -> frozenset[str]:
    return frozenset(tool.spec.name for tool in tools)


def _name(tool: Tool) -> str:
    return tool.spec.name
