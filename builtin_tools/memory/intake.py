"""`DocumentIntake`: the part of the memory that reads documents, which the service uses if it is there."""

from dataclasses import dataclass
from typing import Protocol

from engine.contract.context import CallContext


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """A document that was taken in.

    Attributes:
        unchanged: The same content was stored before, so nothing was changed.
        note: What the reader must know, such as that pages without text were found; "" for nothing.
    """

    document_id: str
    title: str
    uri: str
    passages: int
    pages: int | None = None
    unchanged: bool = False
    note: str = ""


class DocumentIntake(Protocol):
    """Parses documents in a box and stores their passages."""

    async def ingest(self, ctx: CallContext, source: str, space: str, owner: str) -> list[IntakeResult]:
        """Take in a file or a folder of the workspace, or a URL.

        Args:
            ctx: The call, whose sandbox, workspace and progress are used.
            source: A path in the workspace, or a URL.
            space: The space of the passages.
            owner: The owner of that space.

        Raises:
            ToolFailure: The document cannot be read. The message says why.
        """
        ...
