"""`active_list`: the tools of a turn, in a stable order.

Static tools (all that are not skills) come first, then acquired skills, then composed skills, each sorted by name. The
long constant part is at the start so that providers can reuse their prompt caches. Equal inputs produce equal bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool
from engine.turn.availability import Dropped, Tools


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A failure of a source, with the reason. The source's tools are missing from this turn's list."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class ActiveList:
    """The active list of a turn.

    Attributes:
        tools: The offered tools, in order, with unique names.
        dropped: Tools that exist but are not offered.
        failed: Sources that failed.
    """

    tools: Tools
    dropped: tuple[Dropped, ...] = ()
    failed: tuple[SourceFailure, ...] = ()


def reserved_names(static: Tools) -> frozenset[str]:
    """Return the names and aliases of the static tools."""
    return frozenset(name for tool in static for name in (tool.spec.name, *tool.spec.aliases))


def static_tools(offered: Tools) -> tuple[list[Tool], list[Dropped]]:
    """Return the static tools without duplicates, and the dropped duplicates. On a name clash the first source wins."""
    return _unique(frozenset(), offered)


def append_acquired(
    active_tools: Sequence[Tool], acquired: Tools, reserved: frozenset[str]
) -> tuple[list[Tool], list[Dropped]]:
    """Append the acquired skills, sorted by name, without those that would shadow a tool.

    Args:
        active_tools: The list to extend.
        acquired: The skills, sorted by name.
        reserved: Names and aliases of all static tools, including those that are not listed.

    Returns:
        The extended list, and the skills that were omitted.
    """
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in acquired:
        spec = tool.spec
        if spec.name in reserved:
            dropped.append(Dropped(spec.name, f"its name shadows a static tool; rename the {spec.origin} skill"))
        else:
            kept.append(tool)
    more, doubled = _unique(frozenset(tool.spec.name for tool in active_tools), kept)
    return [*active_tools, *more], dropped + doubled


def register_composed_skills(
    active_tools: Sequence[Tool], composed: Tools, reserved: frozenset[str]
) -> tuple[list[Tool], list[Dropped]]:
    """Append the composed skills, which come last. They follow the rules of `append_acquired`."""
    return append_acquired(active_tools, composed, reserved)


def _unique(taken: frozenset[str], tools: Iterable[Tool]) -> tuple[list[Tool], list[Dropped]]:
    """Return the sorted tools without those whose name is taken or belongs to an earlier tool."""
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
