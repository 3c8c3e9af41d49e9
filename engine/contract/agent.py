"""`AgentSpec`: who an agent is and what it may do (REG-7). `engine.turn.agent_turn` makes turns of it."""

from dataclasses import dataclass, field

from engine.contract.spec import Band


@dataclass(frozen=True, slots=True)
class PolicyOverrides:
    """How an agent's policy differs from the house's. It can only be more careful.

    band_floor: the least careful band its calls run in.
    """

    band_floor: Band = "GREEN"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent.

    spec_id: such as ``planner`` or ``agent://planner@deviceA``.
    allowed_tools: ids, names and globs (`jira.*`) of the tools it may call; None is every tool its turn offers, () is
    none. default_prompt_id: of a registered prompt; "" without one.
    memory_spaces: globs of the spaces whose memories it may see (``shared:*``); () is none.
    caps: what it holds (`ToolSpec.caps_required`).
    """

    spec_id: str
    display_name: str = ""
    desc: str = ""
    allowed_tools: tuple[str, ...] | None = None
    default_prompt_id: str = ""
    memory_spaces: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    policy_overrides: PolicyOverrides = field(default_factory=PolicyOverrides)
