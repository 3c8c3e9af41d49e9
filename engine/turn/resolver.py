"""Creates turns of an agent with an allow-list, or of a user, and their tools (ACCESS-4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.contract.allowed import Allowed
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BoundTool
from engine.turn.active_list import ActiveList


@dataclass(frozen=True, slots=True)
class TurnTools:
    """The tools of one turn. listed: the tools, and what was omitted and why.

    tools: name -> ``await f(**arguments) -> ToolResult``, bound to the turn. Unlisted tools, such as deferred ones and
    those found by discovery, are called in this turn with `Engine.call(name, arguments, turn)`.
    """

    turn: Turn
    listed: ActiveList
    tools: Mapping[str, BoundTool]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs for the model, in order."""
        return tuple(tool.spec for tool in self.listed.tools)


def turn_of_agent(
    allowed: Allowed, known: Turn | None, *, include_deferred_tools: bool, log_tool_annotations: bool
) -> Turn:
    """Return a turn restricted by the agent's allow-list. Every part can only remove rights."""
    turn = known or Turn()
    return replace(
        turn,
        allowed=allowed if turn.allowed is None else turn.allowed.within(allowed),
        include_deferred_tools=turn.include_deferred_tools and include_deferred_tools,
        log_tool_annotations=turn.log_tool_annotations and log_tool_annotations,
    )


def turn_of_user(permission: PermissionLevel, modules: Iterable[str] | None, user: str) -> Turn:
    """Return the turn of a user without an agent of its own. modules: None allows all."""
    return Turn(user=user, permission=permission, modules=None if modules is None else frozenset(modules))
