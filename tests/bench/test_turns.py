"""A short version of the run of 200 turns: skills are learned, used, broken by new formats, repaired and composed."""

import json
from pathlib import Path

import pytest

from bench.turns.plot import draw, success_rates
from bench.turns.repair import cases_of
from bench.turns.run import Plan, TurnRecord, run

SHORT = Plan(
    turns=30,
    tasks=("customer_total", "owed_in", "luhn_valid"),
    changes={12: "orders"},
    forgets=("luhn_valid", 26, 27),
)


def turns_with(records: list[TurnRecord], event: str) -> list[int]:
    return [record.turn for record in records if event in record.events]


@pytest.mark.spec("SKILL-4", "SKILL-11", "SKILL-13", "SKILL-16", "LIST-3", "LOOP-1")
async def test_an_agent_learns_uses_loses_and_repairs_its_skills_while_its_files_change() -> None:
    records = await run(SHORT)
    refused, learned = turns_with(records, "refused:customer_total"), turns_with(records, "learned:customer_total")
    used, failed = turns_with(records, "used:customer_total"), turns_with(records, "failed:customer_total")
    quarantined, repaired = (
        turns_with(records, "quarantined:customer_total"),
        turns_with(records, "repaired:customer_total"),
    )
    assert refused == learned == used[:1]  # in one turn the skill is refused, proposed again, learned and used
    assert len(quarantined) == len(repaired) == 1
    assert failed[0] >= 12
    assert max(failed) == quarantined[0] == repaired[0]
    assert max(used) >= repaired[0]
    assert turns_with(records, "composed:owed_in")
    assert turns_with(records, "used:owed_in")
    assert turns_with(records, "deleted:luhn_valid") == [26]
    assert turns_with(records, "restored:luhn_valid") == [27]
    wrong = [record.turn for record in records if not record.ok]
    assert wrong == [turn for turn in failed if turn != repaired[0]]  # all other answers are right
    assert not [record for record in records if any(event.startswith("missed:") for event in record.events)]
    assert all(record.ok for record in records[repaired[0] - 1 :])


def test_equal_records_give_a_chart_with_equal_bytes(tmp_path: Path) -> None:
    records = [TurnRecord(turn, "a", (), (), turn % 3 > 0, ("changed:a",) if turn == 4 else ()) for turn in range(1, 9)]
    draw(records, tmp_path / "one.svg")
    draw(records, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert success_rates(records)[:4] == [1, 1, pytest.approx(2 / 3), 0.75]
    assert json.loads(records[3].line())["events"] == ["changed:a"]


def test_failing_inputs_are_read_from_the_message_of_the_engine() -> None:
    message = "`f` is quarantined:\ndef test_failed_1():  # KeyError\n    assert f(path='a', amount=1.5) == ...\n"
    assert cases_of(message, "f") == [{"path": "a", "amount": 1.5}]
    assert cases_of(message, "g") == []
