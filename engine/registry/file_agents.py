"""`FileAgents`: keeps the registered agents in memory, so that the agent of every call can be looked up.

The entry of a registered agent restricts what it may do (`engine.app.turns`). An agent that is disabled, or whose entry
cannot be read and whose restrictions are therefore unknown, may call nothing. Unregistered agents have no restrictions.
"""

import asyncio
import logging
from collections.abc import Mapping

from engine.contract.agent import AgentSpec
from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.registry.file_registry import FileRegistry, View
from engine.registry.static import RegistryError
from engine.stores.locks import StoreBusy

_log = logging.getLogger("knackbox.registry")


class FileAgents(Guard):
    """A guard that refuses calls by agents that are disabled or whose entries are unreadable. Use it in one event loop.

    Changes made by this process apply at once. Changes made by other processes apply within
    `engine.registry.file_registry.LOOK_S` seconds.

    Attributes:
        known: The registered agents that may act, by id.
        refused: The reasons why the other registered agents may not act, by id.
    """

    def __init__(self, registry: FileRegistry[AgentSpec]) -> None:
        """Create the guard.

        Args:
            registry: The registry of agents, which must already be loaded.
        """
        self._registry = registry
        self._view: View[AgentSpec] | None = None
        self.known: Mapping[str, AgentSpec] = {}
        self.refused: Mapping[str, str] = {}
        self._take_over()

    def due(self) -> bool:
        """Return whether `refresh` must reload the file."""
        return self._registry.due(self._view)

    async def refresh(self) -> None:
        """Reload the file if it changed. If it cannot be read, keep the known agents and try again later."""
        try:
            await asyncio.to_thread(self._registry.view)
        except (OSError, StoreBusy, RegistryError) as error:
            _log.warning("The registered agents cannot be read; the known ones stay in use. %s", error)
        self._take_over()

    def admit(self, request: GuardRequest) -> None:
        """Check that the agent of a call may act.

        Raises:
            ToolFailure: The agent may not act (FATAL).
        """
        why = self.refused.get(request.turn.agent)
        if why is not None:
            raise refusal(f"{why} Nothing was run.", "agent_refused", FailureClass.FATAL)

    def _take_over(self) -> None:
        """Apply the newest version of the file that was read, so that a slow thread cannot restore an older one."""
        view = self._view = self._registry.current
        if view is None:
            return
        refused = {
            problem.item_id: f"The agent {problem.item_id} cannot be read ({problem.reason}); repair {problem.file}."
            for problem in view.problems
            if problem.item_id
        }
        for name, since in view.disabled.items():
            remedy = f"`knackbox registry enable {name} --kind agent` enables it."
            refused[name] = f"The agent {name} has been disabled since {since}. {remedy}"
        self.known = {name: agent for name, agent in view.items.items() if name not in refused}
        self.refused = refused
