"""The entries of a run's journal. `engine.agent.journal.run_state` rebuilds a run from them.

Importing this module loads pydantic_ai, which takes seconds.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_ai.messages import ModelResponse
from pydantic_core import PydanticSerializationError

from engine.agent.budget import Finish
from engine.agent.prompt.compaction import ShortenedResult
from engine.agent.prompt.prompt_parts import Recap
from engine.contract.result import ToolResult

_LARGE = 1 << 18  # characters of a result, of which the model sees only the text
_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(frozen=True, slots=True)
class RunBegun:
    """The user's message, which begins a run.

    Attributes:
        content: The message, and what packs add beside it.
        instructions: The instructions to the model for the whole run.
    """

    message: str
    content: tuple[str, ...]
    instructions: str
    kind: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True)
class LoopMessage:
    """A message to the model from the loop itself.

    Attributes:
        about: Its occasion: a new strategy, the last turn, an interruption, a reply that only announced work, or a
            further message of a person in a forked run.
        finish: Which limit is reached, if this announces the last turn.
    """

    text: str
    about: Literal["replan", "closing", "resumed", "nudge", "person"]
    finish: Finish | None = None
    kind: Literal["message"] = "message"


@dataclass(frozen=True, slots=True)
class MessageDelivered:
    """A message from the inbox of the run, which the model sees in its next request.

    Attributes:
        number: Its number in the inbox. Messages with smaller numbers were delivered before it.
        sender: `engine.stores.run_inbox.PERSON`, or the name of what sent it.
        stop: Whether the run ends instead of beginning another turn.
    """

    number: int
    text: str
    sender: str
    stop: bool = False
    kind: Literal["delivered"] = "delivered"


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call in a response.

    Attributes:
        name: The name of the tool in the engine.
        acquired: Whether the tool is a skill, which stays on the list after its use.
        read_only: Whether the call changes nothing.
        meta: Whether the tool only shows what the agent itself knows or can do (`META_TOOL`).
    """

    name: str
    acquired: bool = False
    read_only: bool = False
    meta: bool = False


@dataclass(frozen=True, slots=True)
class Responded:
    """A response of the model.

    Attributes:
        response: The response with all its parts, including those that only its provider understands.
        calls: Its tool calls, in order.
        stages: The positions of the calls to run, in groups of those that run at the same time. Calls that the budget
            does not allow are in none.
        why_not: The error to report for the calls that are in no stage.
        tokens: The tokens of the request and the response, without `cached`.
        cached: The tokens of the request that the provider has read from its cache.
        cost: What they cost; None if no price is configured.
        estimated: The tokens of the request, estimated by rule; 0 if they were not estimated.
        announces: Whether it only announces work that it could have done, because tools were offered.
    """

    response: ModelResponse
    calls: tuple[RequestedCall, ...]
    stages: tuple[tuple[int, ...], ...]
    why_not: str
    tokens: int
    cached: int = 0
    cost: float | None = None
    estimated: int = 0
    announces: bool = False
    kind: Literal["response"] = "response"


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call that may not simply be repeated is about to run.

    Attributes:
        call: Its position in the response.
        keyed: Whether it has an idempotency key. For some hours, a second call with the key returns the first result.
    """

    call: int
    keyed: bool
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The result of a call.

    Attributes:
        call: Its position in the response.
    """

    call: int
    result: ToolResult
    kind: Literal["result"] = "result"


@dataclass(frozen=True, slots=True)
class RunResumed:
    """The work on the run continues, after its process was killed or while it waited."""

    kind: Literal["resumed"] = "resumed"


@dataclass(frozen=True, slots=True)
class RunWaits:
    """The work on the run stops until a person approves a call, or the model can be reached.

    Attributes:
        what: What the run waits for, in a sentence.
    """

    waits_for: Literal["approval", "model"]
    what: str
    kind: Literal["waits"] = "waits"


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The end of the run, with the answer or a summary of what was achieved."""

    finish: Finish
    answer: str
    kind: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True)
class Compacted:
    """Parts of the conversation are moved out of the prompt. They stay in the journal.

    Attributes:
        shortened: Results whose texts are replaced.
        upto: How many messages the recap replaces, counted after the results were shortened; 0 for none.
        recap: What stays of these messages.
        text: The recap as the model sees it.
        responses: How many responses of the model are among these messages.
        window: The size of the model's window in tokens, if a refusal has told it; 0 otherwise.
        tokens, cached, cost: What the summary used, as in `Responded`.
    """

    shortened: tuple[ShortenedResult, ...]
    upto: int
    recap: Recap | None
    text: str
    responses: int = 0
    window: int = 0
    tokens: int = 0
    cached: int = 0
    cost: float | None = None
    kind: Literal["compacted"] = "compacted"


Entry = (
    RunBegun
    | LoopMessage
    | MessageDelivered
    | Responded
    | CallBegun
    | CallEnded
    | Compacted
    | RunResumed
    | RunWaits
    | RunEnded
)
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")], config=_BYTES)


def to_json(entry: Entry) -> str:
    """Encode an entry. Values in a result that JSON cannot represent become text, and large values are omitted."""
    try:
        text = _ENTRY.dump_json(entry, fallback=str).decode()
    except PydanticSerializationError:  # a text with half of a surrogate pair, which UTF-8 cannot represent
        if not isinstance(entry, CallEnded):
            raise
        return to_json(replace(entry, result=_storable(entry.result)))
    if isinstance(entry, CallEnded) and len(text) > _LARGE and entry.result.output is not None:
        return to_json(replace(entry, result=replace(entry.result, output=None)))
    return text


def from_json(text: str) -> Entry:
    """Decode an entry."""
    return _ENTRY.validate_json(text)


def _storable(result: ToolResult) -> ToolResult:
    message = None if result.message is None else escaped(result.message)
    return replace(result, output=None, message=message, error=escaped(result.error))


def escaped(text: str) -> str:
    """Return the text with halves of surrogate pairs as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
