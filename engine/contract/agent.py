"""`AgentSpec`: an agent and its rights (REG-7). `engine.app.turns` creates an agent's turns from its spec."""

from dataclasses import dataclass, field

from engine.contract.spec import Band


@dataclass(frozen=True, slots=True)
class PolicyOverrides:
    """How an agent's policy differs from the engine's. It can only be stricter.

    Attributes:
        band_floor: The least strict band in which the agent's calls may run. "AMBER" allows AMBER and RED.
    """

    band_floor: Band = "GREEN"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent and its rights, as registered.

    Attributes:
        spec_id: Its unique id, for example ``planner`` or ``agent://planner@deviceA``.
        allowed_tools: Ids, names and globs (`jira.*`) of the tools it may call. None allows all tools, () allows none.
        default_prompt_id: The id of a registered prompt, or "".
        memory_spaces: Globs of the spaces whose memories the agent may see (``shared:*``); () for none.
        caps: The capabilities it holds (`ToolSpec.caps_required`).
    """

    spec_id: str
    display_name: str = ""
    desc: str = ""
    allowed_tools: tuple[str, ...] | None = None
    default_prompt_id: str = ""
    memory_spaces: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    policy_overrides: PolicyOverrides = field(default_factory=PolicyOverrides)
