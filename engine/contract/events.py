"""The events that `Engine.stream` yields during a call. The last event is the `ToolResult` of the call."""

from dataclasses import dataclass
from typing import Literal

from engine.contract.result import ToolResult

StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress report from the tool.

    Attributes:
        fraction: The completed share, 0 to 1; None if unknown.
    """

    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of what the tool's code printed, without control characters.

    The call's result contains the captured output.
    """

    stream: StreamName
    text: str


@dataclass(frozen=True, slots=True)
class Missed:
    """Stands for events that were dropped, oldest first, because the tool reports them faster than they are read.

    Attributes:
        events: The number of dropped events.
    """

    events: int


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Reports that the call is waiting for a person's approval.

    Attributes:
        id: The id of the approval request.
        digest: The digest of the call, to which the approval will apply.
        expires: When the request expires, UTC, ISO 8601.
    """

    id: str
    digest: str
    expires: str


Output = OutputPiece  # deprecated name, kept for importers
StreamEvent = Progress | OutputPiece | Awaiting | Missed
CallEvent = StreamEvent | ToolResult
