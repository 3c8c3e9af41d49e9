"""`Turns` limits the turns that callers request to what the configuration allows."""

from dataclasses import replace

from engine.app.modules import modules_of_guest
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from engine.policy.access import tighter
from engine.policy.allow_lists import AllowLists
from engine.registry.file_agents import FileAgents
from engine.turn.agent_turn import turn_of

NOTHING = Allowed()  # selects no tool


class Turns:
    """Limits requested turns to what the configuration of an engine allows."""

    def __init__(
        self, settings: Settings, features: frozenset[str], allow_lists: AllowLists, agents: FileAgents
    ) -> None:
        """Make the limits of an engine.

        Args:
            settings: The configuration.
            features: What the configured model clients support.
            allow_lists: The allow-lists.
            agents: The registered agents.
        """
        self._settings = settings
        self._allow_lists = allow_lists
        self._agents = agents
        self._usual = Turn(features=features, band=settings.policy.band)
        self._widest = settings.access.allow_list

    async def bounded(self, turn: Turn | None) -> Turn:
        """Return the turn with the features of the model clients and the limits of the configuration.

        The turn of a registered agent offers only what the agent may call, and has its caps. That of a disabled agent
        offers nothing; a guard refuses its calls with the reason.
        """
        if self._agents.due():
            await self._agents.refresh()
        return self._bounded(turn)

    def _bounded(self, turn: Turn | None) -> Turn:
        features, band = self._usual.features, self._usual.band
        if turn is None:
            turn = self._usual
        turn = self._of_agent(turn)
        modules = modules_of_guest(turn, self._settings.modules)
        if modules is not turn.modules:
            turn = replace(turn, modules=modules)
        if not self._widest and features <= turn.features and (band == "GREEN" or turn is self._usual):
            return turn
        ceiling = self.allow_list(self._widest) if self._widest else None
        allowed = ceiling if turn.allowed is None else turn.allowed.within(ceiling)
        return replace(turn, features=turn.features | features, band=tighter(band, turn.band), allowed=allowed)

    def _of_agent(self, turn: Turn) -> Turn:
        agent = self._agents.find(turn.agent)
        if agent is not None:
            return turn_of(agent, turn)
        if self._agents.refused(turn.agent):
            return replace(turn, allowed=NOTHING, use_tool_search_flow=False)
        return turn

    def allow_list(self, name: str, *, local_mode: bool | None = None, embedding_ok: bool = True) -> Allowed:
        """Return what an allow-list permits now.

        Args:
            name: The name of the list.
            local_mode: Whether local mode applies. None: as configured.
            embedding_ok: Whether to include what the list adds when embeddings may be used.

        Raises:
            ConfigError: There is no list of this name.
        """
        local = self._settings.access.local_mode if local_mode is None else local_mode
        return self._allow_lists.resolve_allow_list(name, local_mode=local, embedding_ok=embedding_ok)
