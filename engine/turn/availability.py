"""Decides which tools to offer to a turn, with a reason for each tool that is not offered. Tools are checked in stages.

A stage depends only on the tool's spec, the turn (except its query) and the configuration. Therefore its result can be
cached for unchanged tools (`engine.turn.assembly`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.contract.source import Tool
from engine.contract.spec import RUNS_PROGRAMS, Origin, ToolSpec
from engine.contract.turn import Turn
from engine.policy.access import why_not as denied

DISCOVERY = "discovery"  # the category of the discovery tools
BRIDGE = "bridge"  # a requirement: programs in the sandbox can call tools
EXECUTE_TOOL = "execute_tool"

Tools = tuple[Tool, ...]
Stage = Callable[[ToolSpec, Turn, frozenset[str]], str]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A tool that exists but is not offered in this turn, with the reason. Shown by ``knackbox tools --why``."""

    name: str
    reason: str


def why_not(spec: ToolSpec, turn: Turn, configured: frozenset[str]) -> str:
    """Return why this tool cannot work in this turn (availability); "" if it can."""
    if not spec.requires and not spec.features:
        return ""
    missing = [each for each in spec.requires if each not in configured]
    if missing:
        return f"not configured: {', '.join(missing)}"
    lacking = [each for each in spec.features if each not in turn.features]
    if lacking:
        return f"the model has no {', '.join(lacking)}"
    return ""


def permitted(spec: ToolSpec, turn: Turn, configured: frozenset[str]) -> str:  # noqa: ARG001 -- required of every stage
    """Return why this turn's user and agent may not call the tool (policy); "" if they may."""
    return denied(spec, turn)


def deferred(spec: ToolSpec, turn: Turn, configured: frozenset[str]) -> str:  # noqa: ARG001 -- required of every stage
    """Return why a deferred tool is omitted from the list; "" if the tool is not omitted.

    A deferred tool is one that agents are meant to find with discovery. It can be called even if it is omitted.
    """
    return "deferred, found by discovery" if spec.defer_loading and not turn.include_deferred_tools else ""


def by_search_alone(spec: ToolSpec, turn: Turn, configured: frozenset[str]) -> str:
    """Return why the tool search flow omits the tool; "" if the tool is not omitted.

    This flow lists only the tools of discovery, which find and call all others, and the tool that runs programs, if
    these can call tools.
    """
    if not turn.use_tool_search_flow or always_listed(spec, configured):
        return ""
    return "found by discovery"


def programs_or_single_calls(tools: Tools) -> tuple[Tools, list[Dropped]]:
    """Return the list of the tool search flow without `execute_tool` if it has a tool whose programs call tools.

    Programs can call every tool, so the model needs no other way to call one.
    """
    if not any(RUNS_PROGRAMS in tool.spec.meta for tool in tools):
        return tools, []
    kept = tuple(tool for tool in tools if tool.spec.name != EXECUTE_TOOL)
    return kept, [Dropped(EXECUTE_TOOL, "programs call the tools")] if len(kept) < len(tools) else []


def always_listed(spec: ToolSpec, configured: frozenset[str]) -> bool:
    """Return whether the tool is also on the lists of the tool search flow, so that nobody has to find it."""
    calls_others = BRIDGE in configured and spec.meta.get(RUNS_PROGRAMS) is True and spec.origin is Origin.STATIC
    return calls_others or spec.category == DISCOVERY


def enabled(tools: Tools, disabled: Mapping[str, str]) -> tuple[Tools, list[Dropped]]:
    """Return the tools that are not disabled, in order.

    Args:
        disabled: When each disabled tool was disabled, by tool id.
    """
    if not disabled:
        return tools, []
    kept = tuple(tool for tool in tools if tool.spec.id not in disabled)
    off = [tool.spec for tool in tools if tool.spec.id in disabled]
    return kept, [Dropped(spec.name, f"disabled since {disabled[spec.id]}") for spec in off]


def stages_of(turn: Turn) -> tuple[Stage, ...]:
    """Return the stages that apply to this turn, in order."""
    stages: tuple[Stage, ...] = (why_not, permitted)
    if not turn.include_deferred_tools:
        stages += (deferred,)
    if turn.use_tool_search_flow:
        stages += (by_search_alone,)
    return stages


def offerable(tools: Iterable[Tool], turn: Turn, configured: frozenset[str]) -> tuple[list[Tool], list[Dropped]]:
    """Return the tools that pass all stages, and the others with the reason of the first stage that rejects them."""
    stages = stages_of(turn)
    kept: list[Tool] = []
    dropped: list[Dropped] = []
    for tool in tools:
        spec = tool.spec
        for stage in stages:
            reason = stage(spec, turn, configured)
            if reason:
                dropped.append(Dropped(spec.name, reason))
                break
        else:
            kept.append(tool)
    return kept, dropped
