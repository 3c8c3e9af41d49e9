"""`ToolCall` and `ToolResult`. Every call gets exactly one result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.failure import Failure


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The message that led to a call, for tools and the evaluation gate (TAG-3, ACCESS-7). The host provides it.

    Attributes:
        raw_arg: The text after the prefix of a tag.
        user_message: The message that the model is answering.
        user: The author of the message. The call is made for this user and counts against this user's limits.
        kb_context: Knowledge retrieved for the message.
        confidence: The confidence in the answer, 0 to 1. 0 if the host gives none, so that a missing value never counts
            as confidence.
    """

    raw_arg: str = ""
    user_message: str = ""
    user: str = ""
    chat_id: str = ""
    kb_context: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run a tool, from a model or a person.

    Attributes:
        context: The message that led to the call, if the host provides it.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    context: ToolContext | None = None


# Key of `Audit.data`: how many tokens of its run's budget a call gave to other runs. Negative if it got some back.
GRANTED_TOKENS = "granted_tokens"


@dataclass(frozen=True, slots=True)
class Audit:
    """The engine's own record of a call.

    Attributes:
        data: What the tool added through `CallContext.audit`, a JSON object of a few kilobytes at most. All other
            fields are set by the engine.
        end: Why the call ended: a value of `sandbox.contract.End`, ``"refused"`` if nothing was run, or ``"replayed"``
            if the result is that of an earlier call with the same key.
    """

    tool: str = ""
    call_id: str = ""
    ts: str = ""  # start time, UTC, ISO 8601
    duration_ms: float = 0.0
    attempts: int = 0
    end: str = ""
    risk: str = "LOW"  # LOW, MEDIUM or HIGH: the possible damage if the call was a mistake
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call.

    Attributes:
        output: The structured value, for programs.
        message: Text for the model; None for no message.
        error: What went wrong and what to do, at most one paragraph plus bounded details; empty on success.
        side_effects: The effects that actually happened, such as ``"created:report.csv"``.
    """

    success: bool
    output: Any = None
    message: str | None = None
    error: str = ""
    failure: Failure | None = None
    side_effects: tuple[str, ...] = ()
    audit: Audit = field(default_factory=Audit)

    @property
    def text(self) -> str:
        """The text for the model: the message, or the error."""
        return (self.message or "") if self.success else (self.error or self.message or "")
