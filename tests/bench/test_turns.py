"""The run of two hundred turns, in short: skills are learned, used, broken by a changed world, repaired, composed."""

import json
from pathlib import Path

import pytest

from bench.turns.plot import draw, success_rates
from bench.turns.repair import cases_of
from bench.turns.run import Plan, TurnRecord, run

SHORT = Plan(
    turns=30,
    jobs=("customer_total", "owed_in", "luhn_valid"),
    changes={12: "orders"},
    forgets=("luhn_valid", 26, 27),
)


def when(records: list[TurnRecord], event: str) -> list[int]:
    return [record.turn for record in records if event in record.events]


@pytest.mark.spec("SKILL-4", "SKILL-11", "SKILL-13", "SKILL-16", "LIST-3", "LOOP-1")
async def test_an_agent_learns_uses_loses_and_repairs_its_skills_while_the_world_changes() -> None:
    records = await run(SHORT)
    refused, learned = when(records, "refused:customer_total"), when(records, "learned:customer_total")
    used, failed = when(records, "used:customer_total"), when(records, "failed:customer_total")
    quarantined, repaired = when(records, "quarantined:customer_total"), when(records, "repaired:customer_total")
    assert refused == learned == used[:1]  # mended and used in the same turn
    assert len(quarantined) == len(repaired) == 1
    assert failed[0] >= 12
    assert max(failed) == quarantined[0] == repaired[0]
    assert max(used) >= repaired[0]
    assert when(records, "composed:owed_in")
    assert when(records, "used:owed_in")
    assert when(records, "deleted:luhn_valid") == [26]
    assert when(records, "restored:luhn_valid") == [27]
    wrong = [record.turn for record in records if not record.ok]
    assert wrong == [turn for turn in failed if turn != repaired[0]]  # nothing else went wrong, and it recovered
    assert not [record for record in records if any(event.startswith("missed:") for event in record.events)]
    assert all(record.ok for record in records[repaired[0] - 1 :])


def test_the_picture_is_the_same_to_the_byte_for_the_same_record(tmp_path: Path) -> None:
    records = [TurnRecord(turn, "a", (), (), turn % 3 > 0, ("changed:a",) if turn == 4 else ()) for turn in range(1, 9)]
    draw(records, tmp_path / "one.svg")
    draw(records, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert success_rates(records)[:4] == [1, 1, pytest.approx(2 / 3), 0.75]
    assert json.loads(records[3].line())["events"] == ["changed:a"]


def test_the_failing_inputs_are_read_as_the_engine_words_them() -> None:
    told = "`f` is quarantined:\ndef test_failed_1():  # KeyError\n    assert f(path='a', amount=1.5) == ...\n"
    assert cases_of(told, "f") == [{"path": "a", "amount": 1.5}]
    assert cases_of(told, "g") == []
