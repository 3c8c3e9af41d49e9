"""`ResearchBudget` and what is left of it: pages, tokens and time."""

from collections.abc import Callable
from dataclasses import dataclass, field

CHARACTERS_PER_TOKEN = 4  # of English text, on average


@dataclass(frozen=True, slots=True)
class ResearchBudget:
    """What a call may use.

    Attributes:
        pages: The number of pages that are requested.
        tokens: The tokens of all prompts and answers together, estimated from their length.
        seconds: The time until the report is written.
    """

    pages: int = 12
    tokens: int = 60_000
    seconds: float = 300.0


@dataclass(slots=True)
class RemainingBudget:
    """What is left of a budget.

    Attributes:
        monotonic: Returns monotonic time in seconds.
    """

    budget: ResearchBudget
    monotonic: Callable[[], float]
    _tokens: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.monotonic()

    @property
    def seconds(self) -> float:
        return max(0.0, self.budget.seconds - (self.monotonic() - self._began))

    @property
    def tokens(self) -> int:
        return max(0, self.budget.tokens - self._tokens)

    @property
    def used_tokens(self) -> int:
        return self._tokens

    def spend(self, *texts: str) -> None:
        """Count the tokens of prompts and answers."""
        self._tokens += sum(map(tokens_of, texts))


def tokens_of(text: str) -> int:
    """Estimate the number of tokens of a text."""
    return len(text) // CHARACTERS_PER_TOKEN + 1
