"""`Turn`: the input of one turn. It determines which tools are offered and how calls are bound."""

from dataclasses import dataclass, field

from engine.contract.allowed import Allowed
from engine.contract.spaces import Globs
from engine.contract.spec import Band, PermissionLevel


@dataclass(frozen=True, slots=True)
class RunShare:
    """What is left of the budget of the run that a turn belongs to. `wall_s` is in seconds."""

    turns: int
    tool_calls: int
    tokens: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one agent for one user.

    Attributes:
        query: The latest message, used to find suitable acquired skills. If None, all acquired skills are listed.
        request: What the user wrote, if `query` has more than that. Searches learn from nothing else.
        features: Features of the turn's model client, such as ``"vision"``.
        caps: Capabilities of the agent (`ToolSpec.caps_required`).
        modules: The remote modules that the persona may use; None allows all.
        allowed: The agent's allow-list (`Allowed.of` creates one from names and globs); None allows all.
        memory_spaces: Globs of the spaces whose memories the agent may see; None for all, () for none.
        use_tool_search_flow: Whether to offer only the three tools that find and call all others (DISC-2, CODE-5).
        log_tool_annotations: Whether to log the annotations of each called tool (ACCESS-10).
        most_caps: The capabilities that the turn can have at most, whatever its agent holds; None for no limit.
        workspace: The id of the child run whose own workspace the turn uses; "" for the engine's workspace.
        share: What is left of the budget of `run`; None if `run` is empty.
        agent_key: A string that identifies the pair of user and agent.
        run: The id of the run of the loop that the turn belongs to; "" if it belongs to none that is stored.
        project: The id of the project that the work belongs to; "" for none. It is shown in the prompt instead of the
            user's active project.
        trial: Whether the turn belongs to a trial: nothing is learned from its calls, they see no workspace, and nobody
            is asked to approve them.
        band: GREEN runs tools of every safety class, AMBER those of LOW and MEDIUM, RED only those of LOW.
    """

    query: str | None = None
    request: str | None = field(default=None, kw_only=True)
    user: str = "local"
    agent: str = "main"
    permission: PermissionLevel = "owner"
    features: frozenset[str] = field(default_factory=frozenset)
    include_deferred_tools: bool = True
    caps: frozenset[str] = field(default_factory=frozenset)
    modules: frozenset[str] | None = None
    allowed: Allowed | None = None
    band: Band = "GREEN"
    use_tool_search_flow: bool = False
    log_tool_annotations: bool = True
    memory_spaces: Globs | None = None
    project: str = ""
    most_caps: frozenset[str] | None = None
    workspace: str = ""
    share: RunShare | None = field(default=None, compare=False)
    run: str = field(default="", compare=False)
    trial: bool = False
    # Computed once, because every call reads it.
    agent_key: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "agent_key", f"{len(self.user)}:{self.user}:{self.agent}")
