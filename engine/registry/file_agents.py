"""`FileAgents`: the registered agents as a process knows them, for every call at the price of a look into a dict.

A turn names its agent. One that is registered is bounded by what is registered (`engine.app.turns`); one that is
disabled, or whose entry cannot be read, calls nothing: what would restrict it is not known. A name that was never
registered is a name and no more.
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
    """A guard that refuses the calls of agents that may not act. For one event loop.

    What a process changes itself it sees at once, what another does within `LOOK_S`.
    """

    def __init__(self, registry: FileRegistry[AgentSpec], clock: Clock) -> None:
        """registry: one that was read already."""
        self._registry = registry
        self._clock = clock
        self._look_at = 0.0
        self._saves = registry.saves
        self._view: View[AgentSpec] | None = None
        self._agents: Mapping[str, AgentSpec] = {}
        self._refused: Mapping[str, str] = {}
        self._take_over()

    def find(self, name: str) -> AgentSpec | None:
        """The registered agent of this name; None for another name, and for one that may not act."""
        return self._agents.get(name)

    def refused(self, name: str) -> str:
        """Why the agent of this name may not act; "" when it may."""
        return self._refused.get(name, "")

    def due(self) -> bool:
        """Whether there is something new to take over."""
        if self._saves != self._registry.saves or self._registry.current is not self._view:
            return True
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_S
        return self._registry.stale()

    async def refresh(self) -> None:
        """Take over what changed. Where the file cannot be read, what is known holds, and it is looked at again."""
        saves = self._registry.saves  # before the file is read: what is saved meanwhile is seen next time
        try:
            await asyncio.to_thread(self._registry.view)
        except (OSError, StoreBusy, RegistryError) as error:
            _log.warning("The registered agents cannot be looked at; those known so far hold. %s", error)
        self._saves = saves
        self._take_over()

    def admit(self, request: GuardRequest) -> None:
        """Raises ToolFailure, FATAL, for the call of an agent that may not act."""
        why = self._refused.get(request.turn.agent)
        if why is not None:
            raise refusal(f"{why} Nothing was run.", "agent_refused", FailureClass.FATAL)

    def _take_over(self) -> None:
        """The newest that anybody in this process has read, so that no slower reader puts an older one in its place."""
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
