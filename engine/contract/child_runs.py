"""The types of child runs: runs of the loop that another run, or a caller of a tool, has started."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from engine.contract.background import MessageReport
from engine.contract.turn import Turn


class ChildState(StrEnum):
    """The state of a child run."""

    QUEUED = "queued"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of one run. `tokens` counts input and output; `wall_s` is in seconds."""

    turns: int
    tool_calls: int
    tokens: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A child run.

    Attributes:
        id: Its id in the journal of runs.
        swarm: The id of the group of child runs that were started together.
        parent: The run that started it; "" if it was started outside of a run.
        root: The first run of the tree; the id of the swarm if it was started outside of a run.
        depth: 1 for a child of a run that is no child itself.
        user, agent: Who started it.
        turn: The turn that it works in.
        finish, answer, tokens: How it ended (`engine.agent.budget.Finish`, or ``"error"``), its answer, and the tokens
            that it used.
        cancelled: Whether somebody has asked to cancel it.
        told: Whether its parent knows how it ended, by a result of a call or by a message.
        settled: Whether its parent has got back the tokens that it did not use.
    """

    id: str
    swarm: str
    position: int
    parent: str
    root: str
    depth: int
    user: str
    agent: str
    message: str
    turn: Turn
    limits: RunLimits
    state: ChildState = ChildState.QUEUED
    finish: str = ""
    answer: str = ""
    tokens: int = 0
    cancelled: bool = False
    told: bool = False
    settled: bool = False

    @property
    def ended(self) -> bool:
        return self.state is ChildState.ENDED

    @property
    def succeeded(self) -> bool:
        """Whether the model answered."""
        return self.ended and self.finish == "answer"


class WorkedElsewhere(Exception):
    """Another process works on the run at the moment."""


class ChildLoop(Protocol):
    """Lets the loop of an open engine work on child runs."""

    def bind(self, engine: Any) -> None:
        """Use this engine. The engine calls this once, when it is open."""
        ...

    def limits(self) -> RunLimits:
        """Return the configured limits of a run."""
        ...

    async def agent_turn(self, agent: str, turn: Turn) -> Turn:
        """Return a turn narrowed to a registered agent.

        Raises:
            ConfigError: There is no such agent, or it is disabled.
        """
        ...

    async def work(self, child: ChildRun) -> MessageReport:
        """Begin a child run, or continue it if it has begun, until it ends. If the child is cancelled, end it.

        Cancelling this leaves the run as it is, so that it can be continued.

        Raises:
            WorkedElsewhere: Another process works on it.
            ConfigError: No model is configured, or the agent cannot be used.
        """
        ...

    async def last_words(self, child: ChildRun) -> str:
        """Return the latest text of the model in a run that has not ended; "" if there is none."""
        ...

    def call_when_used(self, begin: Callable[[], None]) -> None:
        """Call a function whenever a conversation begins, which may continue a run that has children."""
        ...

    def used(self) -> None:
        """Note that a conversation begins."""
        ...

    def call_before_close(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Call a function when the engine closes, before anything that child runs use is closed."""
        ...

    async def aclose(self) -> None:
        """Close the client of the model."""
        ...
