"""`ToolCall` in, `ToolResult` out. Every call that was asked for gets exactly one result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.failure import Failure


@dataclass(frozen=True, slots=True)
class TagContext:
    """What the handler of a response tag knows (TAG-3).

    raw_arg: all that followed the prefix. user_message: what the answer with the tag answers. kb_context: what was
    looked up for it. confidence: of the answer, 0 to 1, where the host has one.
    """

    raw_arg: str = ""
    user_message: str = ""
    user: str = ""
    chat_id: str = ""
    kb_context: str = ""
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as a model or a person asked for it. tag: when it was a line of the model's answer."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    tag: TagContext | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """The engine's own record of a call. Tools never fill this in.

    end: why it ended: a value of `sandbox.contract.End`, or ``"refused"`` when nothing was run, or ``"replayed"`` when
        it is the result of an earlier call with the same key.
    """

    tool: str = ""
    call_id: str = ""
    ts: str = ""  # start, UTC, ISO 8601
    duration_ms: float = 0.0
    attempts: int = 0
    end: str = ""
    risk: str = "LOW"  # LOW, MEDIUM or HIGH: how much it may cost if the call was a mistake


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What became of a call.

    output: the structured value, for programs. message: text for the model; None means silent.
    error: what went wrong and what to do, one paragraph at most, plus bounded details; empty on success.
    side_effects: what *did* happen, such as ``"created:report.csv"``.
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
        """What a model reads: the message, or the error."""
        return (self.message or "") if self.success else (self.error or self.message or "")
