"""`DocumentIntake`: the interface for storing documents in the memory. Without an implementation, documents are
refused.
"""

from dataclasses import dataclass
from typing import Protocol

from engine.contract.context import CallContext


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The result of storing one document.

    Attributes:
        unchanged: Whether the same content was already stored, so that nothing was changed.
        note: A remark, such as that pages have no text; "" if there is none.
    """

    document_id: str
    title: str
    uri: str
    passages: int
    pages: int | None = None
    unchanged: bool = False
    note: str = ""


class DocumentIntake(Protocol):
    """Reads documents in a box and stores their passages."""

    async def ingest(self, ctx: CallContext, source: str, space: str, owner: str) -> list[IntakeResult]:
        """Store a file or a folder of the workspace, or a URL.

        Args:
            ctx: The call, whose sandbox, workspace and progress are used.
            source: A path in the workspace, or a URL.
            space: The memory space in which the passages are stored.
            owner: The owner of that space.

        Raises:
            ToolFailure: The document cannot be read. The message says why.
        """
        ...
