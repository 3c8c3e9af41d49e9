"""`ToolCall` in, `ToolResult` out. Every call that was asked for gets exactly one result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.failure import Failure


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools and the evaluation gate know of the message behind a call (TAG-3, ACCESS-7). The host gives it.

    raw_arg: all that followed the prefix of a tag. user_message: what the model answers with this call. user: who wrote
    it; the call is made for this user, and counts against this user's limits. kb_context: what was looked up for it.
    confidence: of the answer, 0 to 1. 0 where the host does not say, so that silence never passes for confidence.
    """

    raw_arg: str = ""
    user_message: str = ""
    user: str = ""
    chat_id: str = ""
    kb_context: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as a model or a person asked for it. context: of the message behind it, where the host gave one."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    context: ToolContext | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """The engine's own record of a call.

    data: what the tool added by `CallContext.audit`, a JSON object of some kilobytes at most. The rest is the engine's.
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
    data: Mapping[str, Any] = field(default_factory=dict)


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
