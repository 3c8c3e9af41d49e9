"""Packs add bounded texts to a turn's prompt, and a block that fails costs nothing but its text."""

import asyncio
from dataclasses import dataclass

import pytest

from engine.contract.prompt_block import Placement, PromptBlocks
from engine.contract.run_summary import RunSummary
from engine.contract.turn import Turn
from engine.turn import prompt_blocks as module
from engine.turn.prompt_blocks import prompt_blocks
from engine.turn.run_observers import notify


@dataclass(frozen=True)
class Block:
    name: str
    said: str
    placement: Placement = "instructions"
    most_characters: int = 40

    async def text(self, turn: Turn, message: str) -> str:
        if self.said == "raise":
            raise RuntimeError("broken")
        if self.said == "hang":
            await asyncio.Event().wait()
        return self.said.format(user=turn.user, message=message)


@pytest.mark.spec("LOOP-8")
async def test_blocks_go_to_the_instructions_or_to_the_message_in_order() -> None:
    blocks = [
        Block("a", "{user} likes tea."),
        Block("b", " "),
        Block("c", "Of {message}.", "message"),
        Block("d", "End."),
    ]
    found = await prompt_blocks(blocks, Turn(user="ada"), "tea")
    assert found == PromptBlocks("ada likes tea.\n\nEnd.", "Of tea.")


@pytest.mark.spec("LOOP-8")
async def test_a_block_that_fails_hangs_or_is_too_long_is_omitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.05)
    blocks = [Block("bad", "raise"), Block("slow", "hang"), Block("long", "x" * 41), Block("good", "here")]
    assert await prompt_blocks(blocks, Turn(), "") == PromptBlocks("here", "")
    assert [name for name in ("bad", "slow", "long", "good") if f"block {name} is omitted" in caplog.text] == [
        "bad",
        "slow",
        "long",
    ]


class Observer:
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.seen: list[RunSummary] = []

    async def run_ended(self, turn: Turn, summary: RunSummary) -> None:
        if self.fails:
            raise RuntimeError("broken")
        self.seen.append(summary)


@pytest.mark.spec("LOOP-8")
async def test_an_observer_that_fails_does_not_keep_others_from_a_summary(caplog: pytest.LogCaptureFixture) -> None:
    good, summary = Observer(), RunSummary("message", answered=True)
    await notify([Observer(fails=True), good], Turn(), summary)
    assert good.seen == [summary]
    assert "Observer failed" in caplog.text
