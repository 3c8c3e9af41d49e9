"""The events of a running call (`Engine.stream`). The last event is its `ToolResult`."""

from dataclasses import dataclass
from typing import Literal

from engine.contract.result import ToolResult

StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as the tool describes it.

    Attributes:
        fraction: The completed share, 0 to 1; None if unknown.
    """

    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of what the tool's code printed, without control characters. The result contains the captured output."""

    stream: StreamName
    text: str


@dataclass(frozen=True, slots=True)
class Missed:
    """The number of events dropped here, oldest first, because the tool reports faster than the reader reads."""

    events: int


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The call waits for a person's approval.

    Attributes:
        id: The request's id.
        digest: The call's digest.
        expires: When the request expires, UTC, ISO 8601.
    """

    id: str
    digest: str
    expires: str


Output = OutputPiece  # deprecated name, kept for importers
StreamEvent = Progress | OutputPiece | Awaiting | Missed
CallEvent = StreamEvent | ToolResult
