"""What one message to the loop may cost, and what it has cost (LOOP-2)."""

from dataclasses import dataclass
from enum import StrEnum


class Finish(StrEnum):
    """Why a run ended."""

    ANSWER = "answer"
    ABORTED = "aborted"  # the model said `abort_attempt`
    REPEATED = "repeated"  # the model made the same refused call again and again
    TURNS = "turns"  # this and the next three: that budget is used up
    TOOL_CALLS = "tool_calls"
    TOKENS = "tokens"
    WALL = "wall"
    MODEL_ERROR = "model_error"  # the model could not be asked


@dataclass(frozen=True, slots=True)
class Budget:
    """Turns and tool calls are counts, tokens are in and out together, wall time is in seconds."""

    turns: int = 40
    tool_calls: int = 200
    tokens: int = 1_000_000
    wall_s: float = 1800.0

    def describe(self, spent: Finish) -> str:
        """The budget that is used up, for people and models."""
        return {
            Finish.TURNS: f"{self.turns} turns",
            Finish.TOOL_CALLS: f"{self.tool_calls} tool calls",
            Finish.TOKENS: f"{self.tokens} tokens",
            Finish.WALL: f"{self.wall_s:g} seconds",
        }.get(spent, spent.value)


@dataclass(slots=True)
class Spent:
    """The meter of one run."""

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0

    def last_turn(self, budget: Budget) -> Finish | None:
        """Which budget makes the turn that is about to start the last one, if any: it may no longer call tools.

        The last of several turns is kept for saying what was reached, so that the budget is not overrun for it.
        """
        if self.tool_calls >= budget.tool_calls:
            return Finish.TOOL_CALLS
        if budget.turns > 1 and self.turns == budget.turns - 1:
            return Finish.TURNS
        return None

    def used_up(self, budget: Budget) -> Finish | None:
        """Which budget forbids a further turn, if any."""
        if self.turns >= budget.turns:
            return Finish.TURNS
        if self.tokens >= budget.tokens:
            return Finish.TOKENS
        return None
