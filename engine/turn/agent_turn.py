"""`turn_of`: the turn of a registered agent. It narrows what may be called; caps are the agent's own."""

from dataclasses import replace

from engine.contract.agent import AgentSpec
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from engine.policy.access import tighter


def turn_of(agent: AgentSpec, turn: Turn | None = None) -> Turn:
    """The turn with this agent's id, caps, allowed tools and band.

    turn: what else is known. Its own list of allowed tools still holds, and the more careful of both bands counts.
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
    )
