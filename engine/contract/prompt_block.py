"""`PromptBlock`: a text that a pack adds to the prompt of a turn, such as what is known about the user (LOOP-8)."""

from dataclasses import dataclass
from typing import Literal, Protocol

from engine.contract.turn import Turn

Placement = Literal["instructions", "message"]


class PromptBlock(Protocol):
    """Writes one text for the prompts of turns.

    Attributes:
        name: Identifies the block in logs.
        placement: Where the text is placed. Texts in the instructions are part of the prefix that providers cache, so
            they must be byte-identical while nothing changes. Texts in the message may depend on the message.
        most_characters: The maximum length of the text, in characters. A longer text is omitted.
    """

    @property
    def name(self) -> str: ...

    @property
    def placement(self) -> Placement: ...

    @property
    def most_characters(self) -> int: ...

    async def text(self, turn: Turn, message: str) -> str:
        """Return the text for a user message; "" to add nothing."""
        ...


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """The texts of all blocks for one user message, each "" if no block has anything to say.

    Attributes:
        instructions: Added to the instructions of the model.
        message: Added to the user's message.
    """

    instructions: str = ""
    message: str = ""


NO_BLOCKS = PromptBlocks()
