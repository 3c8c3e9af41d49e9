"""Ports: services that calls are bound to, which packs implement: memory, a model client, a scheduler.

A pack gives the engine one `Ports` (`Pack.ports`). The engine asks it for each call, with the call's turn, so that what
a tool finds on its context already belongs to that turn's user and agent. A port that no pack implements is None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from engine.contract.failure import FailureClass, refusal
from engine.contract.spaces import Globs, sees
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One thing that is remembered. score: how well it fits the query, higher is better; 0 where none was asked."""

    id: str
    text: str
    space: str
    score: float = 0.0


class MemorySystem(Protocol):
    """Long-term memory, as one call sees it: the memories of the turn's user, in the spaces its agent may see."""

    async def recall(self, query: str, limit: int = 8) -> Sequence[MemoryEntry]:
        """The memories nearest in meaning to the query, best first."""
        ...

    async def remember(self, text: str, space: str) -> str:
        """Store a text in a space and return its id."""
        ...

    async def forget(self, memory_id: str, space: str) -> bool:
        """Delete a memory of a space. False when there is none of this id."""
        ...


class LlmClient(Protocol):
    """A language model, as one call may ask it."""

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        """The model's answer to one prompt. Raises ToolFailure when the model cannot be asked."""
        ...


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A call that will be made later. next_run: UTC; None when it will not run again."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    schedule: str
    next_run: datetime | None


class Scheduler(Protocol):
    """Calls made later, on behalf of the turn's user and agent and with no more than their rights."""

    async def add(self, tool: str, arguments: Mapping[str, Any], schedule: str) -> ScheduledTask:
        """Schedule a call. schedule: a cron expression, ``every 15m``, or an ISO 8601 time for a single run.

        Raises ToolFailure, DIAGNOSTIC, for a schedule that cannot be read.
        """
        ...

    async def cancel(self, task_id: str) -> bool:
        """Cancel a task. False when the user has none of this id."""
        ...

    async def tasks(self) -> Sequence[ScheduledTask]:
        """The user's tasks, the next to run first."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What makes each port for the calls of one turn; None for a port that is not implemented.

    The functions are called for every call, in the event loop, and must return within microseconds.
    """

    memory_system: Callable[[Turn], MemorySystem] | None = None
    llm_client: Callable[[Turn], LlmClient] | None = None
    scheduler: Callable[[Turn], Scheduler] | None = None

    def or_else(self, other: "Ports") -> "Ports":
        """These ports, and the other ones where these have none."""
        return Ports(
            self.memory_system or other.memory_system,
            self.llm_client or other.llm_client,
            self.scheduler or other.scheduler,
        )


NO_PORTS = Ports()


@dataclass(frozen=True, slots=True)
class BoundedMemory:
    """A `MemorySystem` that shows nothing outside of the spaces its agent may see, whatever it is given."""

    behind: MemorySystem
    spaces: Globs

    async def recall(self, query: str, limit: int = 8) -> Sequence[MemoryEntry]:
        return [each for each in await self.behind.recall(query, limit) if sees(self.spaces, each.space)]

    async def remember(self, text: str, space: str) -> str:
        """Raises ToolFailure, FATAL, for a space that the agent may not see."""
        self._refuse_unseen(space)
        return await self.behind.remember(text, space)

    async def forget(self, memory_id: str, space: str) -> bool:
        """Raises ToolFailure, FATAL, for a space that the agent may not see."""
        self._refuse_unseen(space)
        return await self.behind.forget(memory_id, space)

    def _refuse_unseen(self, space: str) -> None:
        if not sees(self.spaces, space):
            text = f"The memory space {space[:100]!r} is not one of this agent's. Nothing was changed."
            raise refusal(text, "denied", FailureClass.FATAL)
