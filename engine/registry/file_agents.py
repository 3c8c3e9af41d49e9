"""`FileAgents`: the registered agents in memory, so that a lookup per call costs little.

A turn names its agent. A registered agent is limited by its entry (`engine.app.turns`). One that is disabled, or whose
entry cannot be read, may call nothing, because its restrictions are unknown. Unregistered names have no restrictions.
"""

import asyncio
import logging
from collections.abc import Mapping

from engine.contract.agent import AgentSpec
from engine.contract.context import Clock
from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.registry.file_registry import FileRegistry, View
from engine.registry.file_tools import LOOK_S
from engine.registry.static import RegistryError
from engine.stores.locks import StoreBusy

_log = logging.getLogger("knackbox.registry")


class FileAgents(Guard):
    """A guard that refuses calls of agents that are disabled or unreadable. For one event loop.

    Changes of this process apply at once, those of other processes within `LOOK_S`.
    """

    def __init__(self, registry: FileRegistry[AgentSpec], clock: Clock) -> None:
        """Create the guard. registry: one that has been read."""
        self._registry = registry
        self._clock = clock
        self._look_at = 0.0
        self._saves = registry.saves
        self._view: View[AgentSpec] | None = None
        self._agents: Mapping[str, AgentSpec] = {}
        self._refused: Mapping[str, str] = {}
        self._take_over()

    def find(self, name: str) -> AgentSpec | None:
        """Return the registered agent of this name; None for unregistered agents and those that may not act."""
        return self._agents.get(name)

    def refused(self, name: str) -> str:
        """Return why the agent may not act; "" if it may."""
        return self._refused.get(name, "")

    def due(self) -> bool:
        """Whether the file should be reloaded."""
        if self._saves != self._registry.saves or self._registry.current is not self._view:
            return True
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_S
        return self._registry.stale()

    async def refresh(self) -> None:
        """Reload the file if it changed. If it cannot be read, the known agents stay, and it is tried again later."""
        saves = self._registry.saves  # before reading, so that concurrent saves are seen next time
        try:
            await asyncio.to_thread(self._registry.view)
        except (OSError, StoreBusy, RegistryError) as error:
            _log.warning("The registered agents cannot be read; the known ones stay in use. %s", error)
        self._saves = saves
        self._take_over()

    def admit(self, request: GuardRequest) -> None:
        """Check the agent of a call.

        Raises:
            ToolFailure: The agent may not act (FATAL).
        """
        why = self._refused.get(request.turn.agent)
        if why is not None:
            raise refusal(f"{why} Nothing was run.", "agent_refused", FailureClass.FATAL)

    def _take_over(self) -> None:
        """Apply the newest version that any thread has read, so that a slow reader cannot restore an older one."""
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
            refused[name] = f"The agent {name} is disabled since {since}. {remedy}"
        self._agents = {name: agent for name, agent in view.items.items() if name not in refused}
        self._refused = refused
