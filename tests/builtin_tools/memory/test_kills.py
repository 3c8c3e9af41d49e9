"""A process may be killed at any moment: nothing is half-written, nothing is lost, and words and vectors agree."""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.scope import MemoryScope
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import SetClock, open_memory
from tests.builtin_tools.memory.stored_vectors import right_vectors, stored_vectors
from tests.builtin_tools.memory.victim import ADA, insert_and_forget, insert_and_forget_encoded
from tests.retrieval.topic_encoder import loader_of, topic_encoder
from tests.stores.processes import Other, other

pytestmark = [pytest.mark.spec("MEM-1", "MEM-6"), pytest.mark.slow]


@pytest.mark.timeout(600)
def test_kills_during_insert_and_forget_lose_nothing(tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    kill_often(tmp_path, embedder, 5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_200_kills_during_insert_and_forget_lose_nothing(tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    kill_often(tmp_path, embedder, 200)


@pytest.mark.spec("MEM-12")
@pytest.mark.timeout(600)
def test_kills_with_an_encoder_leave_words_and_vectors_that_agree(tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    kill_often(tmp_path, embedder, 5, insert_and_forget_encoded)
    home = open_memory(tmp_path / "home", SetClock(), embedder, encoder=loader_of(topic_encoder()))
    home.service.reindexing.run()
    assert stored_vectors(home) == right_vectors(home)
    home.close()


def kill_often(
    folder: Path, embedder: WordLlamaEmbedder, times: int, victim: Callable[[Any, str, int], None] = insert_and_forget
) -> None:
    pick = random.Random(times)
    home = folder / "home"
    home.mkdir()
    expected: dict[str, str] = {}  # id -> text of what must be there
    for round_number in range(times):
        with other(victim, str(home), round_number) as process:
            steps = heard_until_killed(process, pick.randrange(3, 25), pick.random() * 0.05)
        unsure = follow(steps, expected)
        check(home, embedder, expected, unsure)


def heard_until_killed(process: Other, messages: int, longer: float) -> list[tuple[str, str, str]]:
    """Return what the process said: so many messages and what it said until it was dead, at some moment after them."""
    steps = [process.hear() for _ in range(messages)]
    process.pipe.poll(longer)  # the kill comes in the middle of a step, or right after it
    process.kill()
    try:
        while process.pipe.poll(0):
            steps.append(process.pipe.recv())
    except EOFError:
        pass
    return steps


def follow(steps: list[tuple[str, str, str]], expected: dict[str, str]) -> set[str]:
    """Apply completed steps to what is expected, and return the texts of the step that was interrupted."""
    for step, text, entry_id in steps:
        if step == "added":
            expected[entry_id] = text
        elif step == "forgot":
            expected.pop(entry_id, None)
    return {steps[-1][1]} if steps and steps[-1][0] in ("adding", "forgetting") else set()


def check(folder: Path, embedder: WordLlamaEmbedder, expected: dict[str, str], unsure: set[str]) -> None:
    home = open_memory(folder, SetClock(), embedder)
    try:
        home.erasure.finish()
        with home.store.reading() as memory:
            stored = {entry.id: entry.text for entry in memory.entries(["user:ada"])}
            for entry in memory.entries(["user:ada"]):
                assert entry.successor == "" or entry.successor in stored
        missing = {text for entry_id, text in expected.items() if entry_id not in stored}
        added = {text for entry_id, text in stored.items() if entry_id not in expected}
        assert missing <= unsure
        assert added <= unsure
        expected.clear()
        expected.update(stored)
        home.service.recaller.recall(MemoryScope.of(ADA), RecallRequest("Who lives in Rome?"))
        index = home.indexes.of("user:ada").index
        assert index.ids() == set(stored)
        assert len(index) == len(stored)
        for entry_id, text in list(stored.items())[:3]:
            assert entry_id in {found.id for found in index.search(text, 3)}
            assert entry_id in {found for found, _ in index.similar(text, 3)}
        for file in folder.rglob("*.db"):
            with sqlite3.connect(file) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            connection.close()
    finally:
        home.close()
