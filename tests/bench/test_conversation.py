"""A short version of the benchmark of long conversations."""

from pathlib import Path
from statistics import median

import pytest

from bench.conversation.command import summarize
from bench.conversation.plot import draw
from bench.conversation.run import VARIANTS, ConversationRecord, run


@pytest.mark.slow
@pytest.mark.spec("LOOP-6")
async def test_everything_that_was_planted_is_reached_and_tokens_per_turn_stay_flat(tmp_path: Path) -> None:
    record = await run(100, VARIANTS[1])
    assert len(record.reached) == 20
    assert record.counting("lost") == 0
    assert record.counting("recall") > 0
    assert record.unreadable == []
    assert record.refused == 0
    assert record.compactions > 0
    assert median(record.tokens[75:]) < 1.3 * median(record.tokens[25:50])
    draw([record], tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")


def test_the_summary_counts_where_facts_were_found() -> None:
    record = ConversationRecord("any", [10] * 8, [5] * 8, reached={"a": "prompt", "b": "recall", "c": "lost"})
    row = summarize(record)
    assert (row["prompt"], row["recall"], row["handle"], row["lost"], row["cached"]) == (1, 1, 0, 1, 0.5)
