"""What a call tells whoever follows it, as it happens (`Engine.stream`). The last thing told is its `ToolResult`."""

from dataclasses import dataclass
from typing import Literal

from engine.contract.result import ToolResult

StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the tool is, in its words. fraction: of the whole, 0 to 1, where it is known."""

    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of what the tool's code printed, without control characters. The result has what was kept of it all."""

    stream: StreamName
    text: str


@dataclass(frozen=True, slots=True)
class Missed:
    """So many events were dropped here, the oldest first: the tool reports faster than its follower reads."""

    events: int


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The call waits for a person's yes. id: of the question. digest: of what would run. expires: UTC, ISO 8601."""

    id: str
    digest: str
    expires: str


Output = OutputPiece  # deprecated name, kept for importers
StreamEvent = Progress | OutputPiece | Awaiting | Missed
CallEvent = StreamEvent | ToolResult
