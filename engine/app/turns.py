"""`Turns`: creates the turns that callers of an engine request. No other code adds rights to a turn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from engine.app.module_settings import ModuleSettings
from engine.app.settings import Settings
from engine.contract.agent import AgentSpec
from engine.contract.allowed import Allowed
from engine.contract.spaces import narrowed
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BoundTool
from engine.policy.access import tighter
from engine.policy.allow_lists import AllowLists
from engine.registry.file_agents import FileAgents
from engine.turn.active_list import ActiveList
from sandbox.secrets.redactor import Redactor

NOTHING = Allowed()  # permits no tool
_ABOVE_GUEST = frozenset(get_args(PermissionLevel)) - {"guest"}


@dataclass(frozen=True, slots=True)
class TurnTools:
    """The tools of one turn.

    Unlisted tools, such as deferred ones and those found by discovery, are called in this turn with
    `Engine.call(name, arguments, turn)`.

    Attributes:
        listed: The tools, and what was omitted and why.
        tools: For each tool, by name, an async function that calls it in this turn and returns a `ToolResult`.
    """

    turn: Turn
    listed: ActiveList
    tools: Mapping[str, BoundTool]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs for the model, in order."""
        return tuple(tool.spec for tool in self.listed.tools)


class Turns:
    """Creates the turns of one engine."""

    def __init__(
        self,
        settings: Settings,
        features: frozenset[str],
        allow_lists: AllowLists,
        agents: FileAgents,
        redactor: Redactor | None = None,
    ) -> None:
        """Prepare what all turns of the engine have in common.

        Args:
            settings: The configuration.
            features: The features that the configured model clients support.
            allow_lists: The allow-lists.
            agents: The registered agents.
            redactor: Replaces the values of secrets in the queries of turns.
        """
        self._redactor = redactor
        self._settings = settings
        self._allow_lists = allow_lists
        self._agents = agents
        self._usual = Turn(features=features, band=settings.policy.band)
        self._widest = settings.access.allow_list

    async def create(self, requested: Turn | None = None, *, query: str | None = None, user: str = "") -> Turn:
        """Return the turn for a request, with the features of the model clients and within the limits that apply.

        The turn of a registered agent offers only what the agent may call, and has the agent's caps. The turn of a
        disabled agent offers nothing, and a guard refuses its calls with the reason.

        Args:
            requested: The turn as requested by the caller. Its own limits still apply.
            query: The latest message; it replaces the query of the requested turn.
            user: The user of the turn; it replaces the user of the requested turn.
        """
        if self._agents.due():
            await self._agents.refresh()
        turn = self._usual if requested is None else requested
        if query is not None or (user and user != turn.user):
            turn = replace(turn, query=turn.query if query is None else query, user=user or turn.user)
        if self._redactor is not None and turn.query:
            turn = replace(turn, query=self._redactor.text(turn.query))
        agent = self._agents.known.get(turn.agent)
        if agent is not None:
            turn = turn_of(agent, turn)
        elif turn.agent in self._agents.refused:
            turn = replace(turn, allowed=NOTHING, use_tool_search_flow=False)
        modules = modules_of(turn, self._settings.modules)
        features, band = self._usual.features, self._usual.band
        if modules is turn.modules and not self._widest and features <= turn.features and band in ("GREEN", turn.band):
            return turn
        ceiling = self.allow_list(self._widest) if self._widest else None
        return replace(
            turn,
            modules=modules,
            features=turn.features | features,
            band=tighter(band, turn.band),
            allowed=ceiling if turn.allowed is None else turn.allowed.within(ceiling),
        )

    def allow_list(self, name: str, *, local_mode: bool | None = None, embedding_ok: bool = True) -> Allowed:
        """Return the tools that an allow-list currently permits.

        Args:
            name: The name of the list.
            local_mode: Whether local mode applies. None uses the configured value.
            embedding_ok: Whether to include the tools that the list adds when embeddings may be used.

        Raises:
            ConfigError: There is no list with this name.
        """
        local = self._settings.access.local_mode if local_mode is None else local_mode
        return self._allow_lists.resolve_allow_list(name, local_mode=local, embedding_ok=embedding_ok)


def modules_of(turn: Turn, settings: ModuleSettings) -> frozenset[str] | None:
    """Return the modules of a turn; None for all. A guest without a persona may use the configured ones (MOD-4)."""
    if turn.modules is None and turn.permission not in _ABOVE_GUEST:
        return frozenset(settings.default_guest_modules)
    return turn.modules


def turn_of(agent: AgentSpec, turn: Turn | None = None) -> Turn:
    """Return the turn with this agent's id, caps, allowed tools, memory spaces and band.

    Args:
        agent: The agent.
        turn: The turn to narrow. Its own lists of tools and spaces still apply, and the stricter band wins.
    """
    base = turn or Turn()
    allowed = base.allowed
    if agent.allowed_tools is not None:
        own = Allowed.of(agent.allowed_tools)
        allowed = own if allowed is None else allowed.within(own)
    return replace(
        base,
        agent=agent.spec_id,
        caps=frozenset(agent.caps) if base.most_caps is None else base.most_caps.intersection(agent.caps),
        allowed=allowed,
        band=tighter(base.band, agent.policy_overrides.band_floor),
        memory_spaces=narrowed(base.memory_spaces, agent.memory_spaces),
    )
