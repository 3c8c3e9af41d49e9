"""`knackbox bench memory` on two made-up conversations, and its figures."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.memory import command
from bench.memory.locomo import LocomoQuestion, read_locomo
from bench.memory.methods import ENCODED, OURS, FoundTurns
from bench.memory.recall import share_found
from bench.memory.speed import synthetic
from tests.interfaces.cli import here
from tests.retrieval.topic_encoder import topic_encoder

pytestmark = pytest.mark.spec("MEM-11")

TALKS = {
    "Ann": ["Where did you spend your holiday?", "In Zanzibar, with my sister.", "My dog ate a shoe."],
    "Cid": ["What are you baking?", "Rye bread with seeds.", "The vet says that the cat is well."],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with conversations in LoCoMo's form."""
    made = []
    for name, texts in TALKS.items():
        turns = [
            {"speaker": ("Ben", name)[at % 2], "dia_id": f"D1:{at + 1}", "text": text} for at, text in enumerate(texts)
        ]
        turns[2]["blip_caption"] = "a photo of an animal"
        other = [{"speaker": name, "dia_id": "D2:1", "text": "Good morning."}]
        conversation = {
            "speaker_a": name,
            "session_1": turns,
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2": other,
            "session_2_date_time": "12:09 am on 13 September, 2023",
        }
        asked = [
            {"question": texts[0], "evidence": ["D1:2"], "category": 4},
            {"question": f"Which animal does {name} have?", "evidence": ["D1:03; D2:1"], "category": 1},
            {"question": "What is unknown?", "evidence": [], "category": 3},
        ]
        made.append({"conversation": conversation, "qa": asked})
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "two.json").write_text(json.dumps(made))
    return tmp_path


def test_conversations_are_read_with_dates_captions_and_evidence(data: Path) -> None:
    first, second = read_locomo(data / "locomo")
    assert [question.turns for question in first.questions] == [{"D1:2"}, {"D1:3", "D2:1"}]
    assert first.questions[1].sessions == {"D1", "D2"}
    assert second.passages["D1:3"].text == "The vet says that the cat is well. a photo of an animal"
    assert first.passages["D2:1"].time == 1694563740.0
    assert (first.passages["D1:2"].group, first.passages["D1:2"].position, first.passages["D1:2"].title) == (
        "D1",
        1,
        "Ann",
    )


def test_recall_is_the_share_of_the_evidence_among_the_first_results() -> None:
    question = LocomoQuestion("?", 1, frozenset({"D1:1", "D1:2", "D2:1", "D3:1"}))
    found = FoundTurns(["D1:2", *["D9:9"] * 9, "D2:1"], ["D1", "D9", "D8", "D7", "D2", "D3"])
    assert share_found(question, found, "turns@10") == 1 / 4
    assert share_found(question, found, "sessions@5") == 2 / 3


def test_synthetic_entries_are_the_same_each_time_and_made_of_the_turns(data: Path) -> None:
    conversations = read_locomo(data / "locomo")
    made = list(synthetic(conversations, 100))
    assert made == list(synthetic(conversations, 100))
    assert len({each.id for each in made}) == 100
    said = {word for each in conversations for passage in each.passages.values() for word in passage.text.split()}
    assert {word for each in made for word in each.text.split()} <= said


def test_recall_and_latency_are_measured_beside_other_methods(data: Path) -> None:
    rows = command.bench(3, Console(file=StringIO()), data / "locomo", [50])
    recall = {(row["what"], row["way"]): row for row in rows}
    assert recall["turns@10", OURS]["overall"] == 1.0
    assert recall["sessions@5", OURS]["multi-hop"] == 1.0
    assert recall["sessions@5", "BM25"]["count"] == 4
    assert recall["turns@10", OURS]["adversarial"] is None
    assert {row["way"] for row in rows if row["what"] == "50 entries"} == {"SQLite FTS5", "ours", "ours, in a tenth"}
    assert recall["50 entries", "ours"]["first_ms"] > 0
    assert recall["fit", "small talk"]["auroc"] > 0.5


def test_an_encoder_is_measured_beside_the_default_in_the_same_run(data: Path) -> None:
    rows = command.bench(3, Console(file=StringIO()), data / "locomo", [50], topic_encoder())
    by_name = {(row["what"], row["way"]): row for row in rows}
    assert by_name["turns@10", ENCODED]["overall"] == 1.0
    assert by_name["50 entries", ENCODED]["p95_ms"] > 0
    assert by_name["50 entries", ENCODED]["filled_per_s"] > 0
    assert by_name["fit with the encoder", "small talk"]["auroc"] > 0.5
    assert by_name["fit", "small talk"]["auroc"] > 0.5


def test_the_command_prints_json(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "bench", "memory", "--data", str(data), "--sizes", "", "--json")
    assert done.code == 0
    assert {row["way"] for row in json.loads(done.out)["memory"]} >= {OURS, "BM25", "meaning"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "locomo"),
        (("--data", "{data}", "--sizes", "5,x"), "--sizes"),
        (("--data", "{data}", "--encoder", "gpt"), "words, sentences"),
    ],
)
def test_wrong_options_are_explained(
    data: Path, options: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = here(capfd, "bench", "memory", *(option.format(data=data) for option in options))
    assert done.code == 2
    assert message in done.err
