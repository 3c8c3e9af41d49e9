"""Availability: which tools can work at all, given the model's features and the configuration, and why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.policy.access import why_not as denied

DISCOVERY = "discovery"  # the category of the tools by which others are found


@dataclass(frozen=True, slots=True)
class Dropped:
    """A tool that exists and is not offered this turn, and why; shown by ``knackbox tools --why``."""

    name: str
    reason: str


def why_not(spec: ToolSpec, turn: Turn, configured: frozenset[str]) -> str:
    """Why this tool cannot be offered; empty when it can."""
    missing = [each for each in spec.requires if each not in configured]
    if missing:
        return f"not configured: {', '.join(missing)}"
    lacking = [each for each in spec.features if each not in turn.features]
    if lacking:
        return f"the model has no {', '.join(lacking)}"
    return ""


def enabled(tools: Sequence[Tool], disabled: Mapping[str, str]) -> tuple[list[Tool], list[Dropped]]:
    """The tools that nobody disabled, in their order. disabled: since when, by id."""
    if not disabled:
        return list(tools), []
    kept = [tool for tool in tools if tool.spec.id not in disabled]
    off = [tool.spec for tool in tools if tool.spec.id in disabled]
    return kept, [Dropped(spec.name, f"disabled since {disabled[spec.id]}") for spec in off]


def available(tools: Sequence[Tool], turn: Turn, configured: frozenset[str]) -> tuple[list[Tool], list[Dropped]]:
    """The tools that can work, in their order, and those that cannot."""
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in tools:
        spec = tool.spec
        reason = why_not(spec, turn, configured) if spec.requires or spec.features else ""
        if reason:
            dropped.append(Dropped(spec.name, reason))
        else:
            kept.append(tool)
    return kept, dropped


def permitted(tools: Sequence[Tool], turn: Turn) -> tuple[list[Tool], list[Dropped]]:
    """The tools this turn's user and agent may call, in their order, and those they may not."""
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in tools:
        reason = denied(tool.spec, turn)
        if reason:
            dropped.append(Dropped(tool.spec.name, reason))
        else:
            kept.append(tool)
    return kept, dropped


def by_search_alone(tools: Sequence[Tool], turn: Turn) -> tuple[list[Tool], list[Dropped]]:
    """Leave only the tools of discovery when the turn asks for that; the others stay callable and are found by them."""
    if not turn.use_tool_search_flow:
        return list(tools), []
    kept = [tool for tool in tools if tool.spec.category == DISCOVERY]
    found = [tool for tool in tools if tool.spec.category != DISCOVERY]
    return kept, [Dropped(tool.spec.name, "found by discovery") for tool in found]


def without_deferred(tools: Sequence[Tool], turn: Turn) -> tuple[list[Tool], list[Dropped]]:
    """Leave deferred tools out when the turn asks for that; they stay callable and discoverable."""
    if turn.include_deferred_tools:
        return list(tools), []
    kept = [tool for tool in tools if not tool.spec.defer_loading]
    dropped = [Dropped(tool.spec.name, "deferred, found by discovery") for tool in tools if tool.spec.defer_loading]
    return kept, dropped
