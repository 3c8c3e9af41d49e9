"""The events that a run emits, and its final report."""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.agent.budget import Finish
from engine.contract.result import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request is about to be sent to the model.

    Attributes:
        tools: The names of the tools listed in this turn, in order.
    """

    number: int
    query: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of streamed text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A progress report of a running tool.

    Attributes:
        fraction: From 0 to 1, if known.
    """

    call: ToolCall
    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class CallFinished:
    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Replanned:
    """The strategy was reset, because the model called `replan` or a call had a FATAL failure."""

    reason: str


@dataclass(frozen=True, slots=True)
class ModelAwaited:
    """The model cannot be reached or is overloaded. The request is sent again after a wait.

    Attributes:
        error: What went wrong.
        wait_s: The wait in seconds.
    """

    error: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class PromptCompacted:
    """Parts of the conversation were moved out of the prompt, because the model's window is nearly full.

    Attributes:
        results: How many results were shortened.
        messages: How many messages were replaced by a recap.
    """

    results: int
    messages: int


@dataclass(frozen=True, slots=True)
class Nudged:
    """The model only announced work, and was told to do it. This happens at most once per run."""


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A hook failed or was too slow. The run goes on.

    Attributes:
        hook: The class and the method.
        error: What went wrong.
    """

    hook: str
    error: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message that was sent to the run has been added to the conversation.

    Attributes:
        sender: `engine.stores.run_inbox.PERSON`, or the name of what sent it.
        stop: Whether the message ends the run.
    """

    sender: str
    text: str
    stop: bool = False


Event = (
    CallFinished
    | CallProgress
    | CallStarted
    | HookFailed
    | MessageReceived
    | ModelAwaited
    | Nudged
    | PromptCompacted
    | Replanned
    | TextPiece
    | TurnStarted
)
OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore the event."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report at the end of a run.

    Attributes:
        answer: The answer of the model, or a summary of what was achieved.
        tokens: Those of all requests and responses, without `cached_tokens`.
        cached_tokens: The tokens of requests that the provider has read from its cache.
        cost: In `currency`; None if no price is configured for the model.
        run: The id of the run in the journal; "" if it is not in one.
    """

    finish: Finish
    answer: str
    turns: int = 0
    tokens: int = 0
    calls: tuple[CallFinished, ...] = field(default=())
    run: str = ""
    cached_tokens: int = 0
    cost: float | None = None
    currency: str = ""
