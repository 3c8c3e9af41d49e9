"""Collects the texts that packs add to the prompt of a turn."""

import asyncio
import logging
from collections.abc import Sequence

from engine.contract.prompt_block import NO_BLOCKS, Placement, PromptBlock, PromptBlocks
from engine.contract.turn import Turn

DEADLINE_S = 5.0  # a block is optional; a turn does not wait longer for it

_log = logging.getLogger("knackbox.turn")


async def prompt_blocks(blocks: Sequence[PromptBlock], turn: Turn, message: str) -> PromptBlocks:
    """Return the texts of the blocks, in the given order. All blocks are produced concurrently.

    A block that fails, takes longer than `DEADLINE_S` or exceeds its limit is omitted with a warning, because a turn
    must not fail for lack of an optional text.
    """
    if not blocks:
        return NO_BLOCKS
    texts = await asyncio.gather(*(_text(block, turn, message) for block in blocks))

    def joined(placement: Placement) -> str:
        chosen = [text for block, text in zip(blocks, texts, strict=True) if text and block.placement == placement]
        return "\n\n".join(chosen)

    return PromptBlocks(joined("instructions"), joined("message"))


async def _text(block: PromptBlock, turn: Turn, message: str) -> str:
    try:
        async with asyncio.timeout(DEADLINE_S):
            text = (await block.text(turn, message)).strip()
    except Exception as error:  # noqa: BLE001 -- blocks are other people's code
        _log.warning("The prompt block %s is omitted: %s: %s", block.name, type(error).__name__, error)
        return ""
    if len(text) > block.most_characters:
        _log.warning(
            "The prompt block %s is omitted: it has %d characters, but only %d are allowed.",
            block.name,
            len(text),
            block.most_characters,
        )
        return ""
    return text
