"""Turns of an agent with an allow-list, or of a user, and the tools that come with them (ACCESS-4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.contract.allowed import Allowed
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BoundTool
from engine.turn.active_list import ActiveList


@dataclass(frozen=True, slots=True)
class TurnTools:
    """What may be used in one turn. listed: the tools, and what was left out and why.

    tools: name -> ``await f(**arguments) -> ToolResult``, bound to the turn. Also what is not listed, a deferred tool
    or one that discovery finds, is called in this turn by `Engine.call(name, arguments, turn)`.
    """

    turn: Turn
    listed: ActiveList
    tools: Mapping[str, BoundTool]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """For the model, in order."""
        return tuple(tool.spec for tool in self.listed.tools)


def turn_of_agent(
    allowed: Allowed, known: Turn | None, *, include_deferred_tools: bool, log_tool_annotations: bool
) -> Turn:
    """What is known of a turn, bounded by the agent's allow-list. Each part can only take away."""
    turn = known or Turn()
    return replace(
        turn,
        allowed=allowed if turn.allowed is None else turn.allowed.within(allowed),
        include_deferred_tools=turn.include_deferred_tools and include_deferred_tools,
        log_tool_annotations=turn.log_tool_annotations and log_tool_annotations,
    )


def turn_of_user(permission: PermissionLevel, modules: Iterable[str] | None, user: str) -> Turn:
    """Of a user without an agent of its own. modules: None allows all."""
    return Turn(user=user, permission=permission, modules=None if modules is None else frozenset(modules))
