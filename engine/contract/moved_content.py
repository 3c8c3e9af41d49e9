"""`MovedContent`: finds what was moved out of the prompts of long conversations (LOOP-6)."""

from dataclasses import dataclass
from typing import Protocol

from engine.contract.turn import Turn

RESULT = "result://"  # starts the handle of a result, followed by the id of the call
MESSAGE = "message://"  # starts the handle of a message, followed by its run and the number of its entry


@dataclass(frozen=True, slots=True)
class ContentPiece:
    """A part of a conversation.

    Attributes:
        handle: How it can be read.
        what: What it is, in words, such as ``"result of file_system"``.
        text: Its text, or the passage that fits a query.
        characters: The length of the whole text.
        start: Where `text` begins in the whole text.
    """

    handle: str
    what: str
    text: str
    characters: int
    start: int = 0


class MovedContent(Protocol):
    """Finds and reads what a turn's conversation contained before it was moved out of the prompt. Methods block."""

    def search(self, turn: Turn, query: str, limit: int) -> list[ContentPiece]:
        """Return the passages of moved content that fit a query best, best first."""
        ...

    def read(self, turn: Turn, handle: str, start: int, characters: int) -> ContentPiece | None:
        """Return a part of the conversation by its handle, whether it was moved out or not.

        Args:
            turn: The turn, which is part of the conversation.
            handle: `RESULT` or `MESSAGE` and an id.
            start: Where to begin.
            characters: How much to return at most.

        Returns:
            None if the turn's conversation contains nothing with this handle.
        """
        ...
