"""What a run tells whoever watches it, as it happens and at its end."""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.agent.budget import Finish
from engine.contract.result import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request is about to go to the model. tools: names on the list of this turn, in its order."""

    number: int
    query: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text as it streams from the model."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallProgress:
    """What the tool of a call reports while it runs. fraction: of the whole, 0 to 1, where it is known."""

    call: ToolCall
    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class CallFinished:
    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Replanned:
    """The strategy was reset: the model called `replan`, or a call failed in a way that is FATAL."""

    reason: str


Event = TurnStarted | TextPiece | CallStarted | CallProgress | CallFinished | Replanned
OnEvent = Callable[[Event], None]


def nobody_watches(event: Event) -> None:
    """Where events go when nobody listens."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended. answer: what to show: the model's answer, or our own account of what was reached."""

    finish: Finish
    answer: str
    turns: int = 0
    tokens: int = 0
    calls: tuple[CallFinished, ...] = field(default=())
