"""An index in a file ranks like the one in memory, is shared by processes, and is rebuilt when it is damaged."""

import sqlite3
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.contract.failure import ConfigError
from engine.retrieval.document import Document
from engine.retrieval.index import HybridIndex
from engine.retrieval.index_file import IndexFile
from engine.retrieval.memory import MemoryVectors
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import WordLlamaEmbedder

pytestmark = pytest.mark.spec("SKILL-14")

EMBEDDER = WordLlamaEmbedder()
ABOUT = {
    "invoice_total": "Add up the amounts of an invoice.",
    "photo_resize": "Make a photo smaller, or larger.",
    "train_times": "Departures of trains from a station.",
    "roman_numeral": "Write a whole number in Roman numerals.",
}
DOCUMENTS = {name: Document(name, text, examples=(f"please {text}",)) for name, text in ABOUT.items()}
WORDS = st.sampled_from(
    [
        "train",
        "trains",
        "photo",
        "invoice",
        "number",
        "7",
        "write",
        "station",
        "add",
        "photos",
        "numerals",
        "smaller",
        "the",
        "of",
    ]
)
TEXT = st.lists(WORDS, max_size=8).map(" ".join)
MADE = st.builds(
    Document, st.sampled_from(string.ascii_lowercase), TEXT, st.lists(TEXT, max_size=2).map(tuple), TEXT, TEXT
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.one_of(MADE, st.sampled_from(string.ascii_lowercase)), min_size=1, max_size=25),
    query=TEXT,
    at_once=st.integers(1, 30),
)
def test_it_ranks_like_the_index_in_memory_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Document | str], query: str, at_once: int
) -> None:
    stored = StoredIndex(tmp_path_factory.mktemp("index") / "index.db", EMBEDDER)
    memory = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    for start in range(0, len(changes), at_once):
        batch = {one if isinstance(one, str) else one.id: one for one in changes[start : start + at_once]}
        assert stored.apply({id_: None if isinstance(one, str) else one for id_, one in batch.items()}, {})
    for one in changes:
        if isinstance(one, str):
            memory.remove(one)
        else:
            memory.upsert(one)
    found, expected = stored.search(query, 10), memory.search(query, 10)
    assert [one.id for one in found] == [one.id for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.score, one.similarity, one.bm25, one.covered, one.fit) == pytest.approx(
            (other.score, other.similarity, other.bm25, other.covered, other.fit), abs=1e-5
        )
    assert len(stored) == len(memory)
    stored.close()


def test_documents_written_by_one_process_are_found_by_the_next_search_of_another(tmp_path: Path) -> None:
    one, other = (StoredIndex(tmp_path / "index.db", EMBEDDER) for _ in range(2))
    assert other.search("when does the train leave", 1) == []
    assert one.apply(DOCUMENTS, {"read": "4"})
    assert [found.id for found in other.search("when does the train leave", 1)] == ["train_times"]
    assert other.note("read") == "4"
    assert one.apply({"train_times": None}, {})
    assert "train_times" not in [found.id for found in other.search("when does the train leave", 4)]
    one.clear()  # another file takes its place
    assert other.search("when does the train leave", 1) == []
    one.close()
    other.close()


def test_a_writer_does_not_wait_for_another_and_reports_it(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(DOCUMENTS, {})
    with sqlite3.connect(tmp_path / "index.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not index.apply({"photo_resize": None}, {})
        assert [found.id for found in index.search("make my photo smaller", 1)] == ["photo_resize"]
        other.execute("ROLLBACK")
    assert index.apply({"photo_resize": None}, {})
    other.close()
    index.close()


@pytest.mark.parametrize("damage", [b"no database at all " * 1000, b""])
def test_a_damaged_file_is_replaced_by_an_empty_one(tmp_path: Path, damage: bytes) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(DOCUMENTS, {"read": "4"})
    index.close()
    for path in tmp_path.glob("index.db-*"):
        path.unlink()
    (tmp_path / "index.db").write_bytes(damage)
    assert index.note("read") == ""
    assert index.apply(DOCUMENTS, {"read": "4"})
    assert [found.id for found in index.search("make my photo smaller", 1)] == ["photo_resize"]
    index.close()


def test_damage_found_by_a_search_is_reported_once_and_then_repaired(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(DOCUMENTS, {"read": "4"})
    index.close()
    with sqlite3.connect(tmp_path / "index.db") as inside:
        inside.execute("DROP TABLE postings")
    inside.close()
    with pytest.raises(ConfigError, match="is being rebuilt"):
        index.search("make my photo smaller", 1)
    assert index.note("read") == ""
    assert index.apply(DOCUMENTS, {})
    assert [found.id for found in index.search("make my photo smaller", 1)] == ["photo_resize"]
    index.close()


def test_a_file_made_with_another_embedder_is_replaced(tmp_path: Path) -> None:
    class Other(WordLlamaEmbedder):
        @property
        def name(self) -> str:
            return "another"

    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(DOCUMENTS, {"read": "4"})
    index.close()
    other = StoredIndex(tmp_path / "index.db", Other())
    assert (other.note("read"), len(other)) == ("", 0)
    other.close()


def test_a_file_that_another_process_replaces_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened, once = tmp_path / "index.db", IndexFile._open, iter([True])

    def replaced(file: IndexFile) -> sqlite3.Connection:
        connection = opened(file)
        if next(once, False):
            other = StoredIndex(path, EMBEDDER)
            other.clear()
            assert other.apply(DOCUMENTS, {"place": "1"})
            other.close()
        return connection

    monkeypatch.setattr(IndexFile, "_open", replaced)
    index = StoredIndex(path, EMBEDDER)
    assert index.note("place") == "1"
    assert len(index) == len(DOCUMENTS)


def test_changes_prepared_for_other_notes_are_not_applied(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(DOCUMENTS, {"place": "1"}, after={"place": ""})
    assert not index.apply({"train_times": None}, {"place": "2"}, after={"place": ""})
    assert (len(index), index.notes("place", "none")) == (len(DOCUMENTS), {"place": "1", "none": ""})
