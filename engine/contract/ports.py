"""The ports, which are services that packs implement and tools use: memory, a model client, a scheduler.

A pack provides one `Ports` (`Pack.ports`), whose functions create the services. The engine calls them with the turn of
each call, so that the services in a tool's context belong to that turn's user and agent. A port that no pack implements
is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.contract.failure import FailureClass, refusal
from engine.contract.scheduler import Scheduler
from engine.contract.spaces import Globs, sees
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A stored memory, as a result of a query.

    Attributes:
        score: Relevance to the query, higher is better; 0 without a query.
    """

    id: str
    text: str
    space: str
    score: float = 0.0


class MemorySystem(Protocol):
    """The memory that one call can access: the memories of the turn's user, in the spaces that the agent may see."""

    async def recall(self, query: str, limit: int = 8) -> Sequence[MemoryEntry]:
        """Return the memories most similar to the query, best first."""
        ...

    async def remember(self, text: str, space: str) -> str:
        """Store a text in a space and return its id."""
        ...

    async def forget(self, memory_id: str, space: str) -> bool:
        """Delete a memory from a space. Return False if the space has no memory with this id."""
        ...


class LlmClient(Protocol):
    """A language model that tools can use."""

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        """Return the model's answer to one prompt.

        Raises:
            ToolFailure: The model cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Functions that create the ports for a turn; None for a port that is not implemented.

    The functions run in the event loop, once per call, and must return within microseconds.
    """

    memory_system: Callable[[Turn], MemorySystem] | None = None
    llm_client: Callable[[Turn], LlmClient] | None = None
    scheduler: Callable[[Turn], Scheduler] | None = None

    def or_else(self, other: "Ports") -> "Ports":
        """Return these ports, with missing ones taken from `other`."""
        return Ports(
            self.memory_system or other.memory_system,
            self.llm_client or other.llm_client,
            self.scheduler or other.scheduler,
        )


NO_PORTS = Ports()


@dataclass(frozen=True, slots=True)
class BoundedMemory:
    """A wrapper that restricts a `MemorySystem` to the spaces that the agent may see."""

    behind: MemorySystem
    spaces: Globs

    async def recall(self, query: str, limit: int = 8) -> Sequence[MemoryEntry]:
        return [each for each in await self.behind.recall(query, limit) if sees(self.spaces, each.space)]

    async def remember(self, text: str, space: str) -> str:
        """Store a text.

        Raises:
            ToolFailure: The agent may not see the space (FATAL).
        """
        self._refuse_unseen(space)
        return await self.behind.remember(text, space)

    async def forget(self, memory_id: str, space: str) -> bool:
        """Delete a memory.

        Raises:
            ToolFailure: The agent may not see the space (FATAL).
        """
        self._refuse_unseen(space)
        return await self.behind.forget(memory_id, space)

    def _refuse_unseen(self, space: str) -> None:
        if not sees(self.spaces, space):
            text = f"This agent may not use the memory space {space[:100]!r}. Nothing was changed."
            raise refusal(text, "denied", FailureClass.FATAL)
