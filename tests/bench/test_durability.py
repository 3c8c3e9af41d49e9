"""The benchmark of durability kills runs at the points that it names, and counts what is wrong afterwards."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.durability.command import OURS, bench, points
from bench.durability.scenario import calls_without_one_result, count_effects, effects, next_calls, rounds
from bench.durability.worker import EFFECTS_FILE
from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("LOOP-5")


def test_the_points_are_spread_over_requests_calls_and_effects() -> None:
    everything = points(10_000)
    assert len(everything) == len(set(everything)) == 49 + 60 + effects().total()
    assert {name for name, _ in points(6)} == {"request", "call", "effect"}
    assert sum(map(len, rounds())) == 60


def test_effects_that_happened_twice_or_not_at_all_are_counted(tmp_path: Path) -> None:
    assert count_effects(tmp_path) == (0, effects().total())
    lines = [*effects(), "send 2", "send 2"]
    (tmp_path / EFFECTS_FILE).write_text("\n".join(lines[1:]))
    assert count_effects(tmp_path) == (2, 1)


def test_calls_without_a_result_or_with_two_are_counted() -> None:
    function = {"name": "look", "arguments": '{"n": 0}'}
    made = [{"role": "assistant", "tool_calls": [{"id": each, "function": function} for each in "abc"]}]
    results = [{"role": "tool", "tool_call_id": each, "content": "seen"} for each in "abb"]
    assert calls_without_one_result(made + results) == 2


def test_the_model_asks_about_a_call_in_doubt_and_repeats_it_only_if_it_did_not_happen() -> None:
    conversation = []

    def play(*results: str) -> list[str]:
        calls = next_calls(conversation)
        ids = [f"{len(conversation)}-{at}" for at in range(len(calls))]
        functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
        made = [{"id": each, "function": function} for each, function in zip(ids, functions, strict=True)]
        conversation.append({"role": "assistant", "tool_calls": made})
        for each, said in zip(ids, results, strict=True):
            conversation.append({"role": "tool", "tool_call_id": each, "content": said})
        return [name for name, _ in calls]

    assert play("seen", "seen") == ["look", "look"]
    assert play("pay may have happened: the process was killed.") == ["pay"]
    assert play("no") == ["happened"]
    assert next_calls(conversation) == [("pay", {"n": 1, "attempt": 2})]
    assert play("paid") == ["pay"]
    assert next_calls(conversation)[0] == ("send", {"n": 2})


def test_an_interpreter_that_does_not_exist_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = here(capfd, "bench", "durability", "--peers", str(tmp_path / "python"))
    assert (ran.code, ran.out) == (2, "")
    assert "pip install" in ran.err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_killed_after_an_effect_is_continued_without_a_peer() -> None:
    (row,) = bench(1, Console(quiet=True), None)
    assert (row["way"], row["count"], row["unfinished"]) == (OURS, 1, 0)
    assert (row["duplicates"], row["lost_effects"], row["lost_calls"]) == (0, 0, 0)
    assert row["resumed_p50_s"] > 0
    assert row["written_kb"] > 0
