"""`turn_of`: the turn of a registered agent. It narrows what may be called and seen; caps are the agent's own."""

from dataclasses import replace

from engine.contract.agent import AgentSpec
from engine.contract.allowed import Allowed
from engine.contract.spaces import narrowed
from engine.contract.turn import Turn
from engine.policy.access import tighter


def turn_of(agent: AgentSpec, turn: Turn | None = None) -> Turn:
    """Return the turn with this agent's id, caps, allowed tools, memory spaces and band.

    turn: the turn to narrow. Its own lists of tools and spaces still apply, and the stricter band wins.
    """
    base = turn or Turn()
    allowed = base.allowed
    if agent.allowed_tools is not None:
        own = Allowed.of(agent.allowed_tools)
        allowed = own if allowed is None else allowed.within(own)
    return replace(
        base,
        agent=agent.spec_id,
        caps=frozenset(agent.caps),
        allowed=allowed,
        band=tighter(base.band, agent.policy_overrides.band_floor),
        memory_spaces=narrowed(base.memory_spaces, agent.memory_spaces),
    )
