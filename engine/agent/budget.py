"""`Budget`: the limits of the loop's work on one message. `Spent`: how much of the budget is used (LOOP-2)."""

from dataclasses import dataclass
from enum import StrEnum


class Finish(StrEnum):
    """The reason why a run ended."""

    ANSWER = "answer"
    ABORTED = "aborted"  # the model called `abort_attempt`
    REPEATED = "repeated"  # the model made the same refused call again and again
    TURNS = "turns"  # this value and the next three name the budget that is used up
    TOOL_CALLS = "tool_calls"
    TOKENS = "tokens"
    WALL = "wall"
    MODEL_ERROR = "model_error"  # the request to the model failed
    APPROVAL = "approval"  # a call needs a person's approval, and nobody answered; the run can be resumed
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one run. `wall_s` is in seconds.

    Tokens are those of requests and responses, without the tokens that the provider has read from its cache.
    """

    turns: int = 40
    tool_calls: int = 200
    tokens: int = 1_000_000
    wall_s: float = 1800.0

    def describe(self, spent: Finish) -> str:
        """Return a phrase that describes the limit that was reached, such as "200 tool calls"."""
        return {
            Finish.TURNS: f"{self.turns} turns",
            Finish.TOOL_CALLS: f"{self.tool_calls} tool calls",
            Finish.TOKENS: f"{self.tokens} tokens",
            Finish.WALL: f"{self.wall_s:g} seconds",
        }.get(spent, spent.value)


@dataclass(slots=True)
class Spent:
    """The part of the budget that one run has spent.

    Attributes:
        cached: The tokens that the provider has read from its cache, which `tokens` does not contain.
        cost: In the currency of the configured price; None if there is none.
    """

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cached: int = 0
    cost: float | None = None

    def add(self, tokens: int, cached: int, cost: float | None) -> None:
        """Add what one request used."""
        self.tokens += tokens
        self.cached += cached
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def last_turn(self, budget: Budget) -> Finish | None:
        """Return the limit that makes the next turn the last one, or None.

        The last turn may not call tools: it is reserved for a summary of what was achieved.
        """
        if self.tool_calls >= budget.tool_calls:
            return Finish.TOOL_CALLS
        if budget.turns > 1 and self.turns == budget.turns - 1:
            return Finish.TURNS
        return None

    def used_up(self, budget: Budget) -> Finish | None:
        """Return the limit that forbids any further turn, or None."""
        if self.turns >= budget.turns:
            return Finish.TURNS
        if self.tokens >= budget.tokens:
            return Finish.TOKENS
        return None
