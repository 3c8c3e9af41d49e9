"""`Turn`: what is known at the start of one turn. It decides which tools are offered and how calls are bound."""

from dataclasses import dataclass, field

from engine.contract.allowed import Allowed
from engine.contract.spaces import Globs
from engine.contract.spec import Band, PermissionLevel


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one agent for one user.

    query: the latest message; acquired skills are retrieved for it. None lists them all.
    features: what the model client of this turn can do, such as ``"vision"``.
    caps: what the agent holds (`ToolSpec.caps_required`). modules: those of the persona; None allows all.
    allowed: the tools of the agent's allow-list (`Allowed.of` makes one of names and globs); None allows all.
    memory_spaces: globs of the spaces whose memories the agent may see; None is all, () is none.
    use_tool_search_flow: offer three tools by which all others are found (DISC-2), instead of the others.
    log_tool_annotations: note what each call may do in the log of the process (ACCESS-10).
    band: how careful to be. GREEN runs tools of every safety class, AMBER none of class HIGH, RED only those of LOW.
    """

    query: str | None = None
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

    @property
    def agent_key(self) -> str:
        """User and agent as one text, different for any two agents of any users."""
        return f"{len(self.user)}:{self.user}:{self.agent}"
