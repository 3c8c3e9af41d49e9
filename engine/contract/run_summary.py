"""`RunSummary`: what happened in one run of the loop, for packs that learn from it."""

from dataclasses import dataclass
from typing import Protocol

from engine.contract.failure import FailureClass
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class RunCall:
    """One tool call of a run.

    Attributes:
        reason: `Failure.reason`; "" for a success.
        failure_class: None for a success.
    """

    call_id: str
    tool: str
    success: bool
    reason: str = ""
    failure_class: FailureClass | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the loop did with one user message.

    Attributes:
        message: The user's message.
        answered: Whether the model answered. It is False if the model gave up, or if a budget was used up.
        calls: The tool calls in order.
    """

    message: str
    answered: bool
    calls: tuple[RunCall, ...] = ()


class RunObserver(Protocol):
    """Receives a summary of every run that ends."""

    async def run_ended(self, turn: Turn, summary: RunSummary) -> None:
        """Process the summary of a run. Exceptions that this method raises are logged and do not affect the run."""
        ...
