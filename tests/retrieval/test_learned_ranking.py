"""The learned ranking is trained on requests, versioned in the index, and replaced only by one that is not worse."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.document import Document
from engine.retrieval.learned_ranking import LearnedRanking, features, hashed, reciprocal_rank, second_moments, trained
from engine.retrieval.stored_index import StoredIndex
from engine.retrieval.stored_ranking import packed, unpacked
from engine.stores.embedder import WordLlamaEmbedder

pytestmark = pytest.mark.spec("GATE-3")

EMBEDDER = WordLlamaEmbedder()
SUBJECTS = ("invoice", "photo", "train", "numeral", "mail", "table", "song", "recipe", "map", "letter", "tax", "dog")
WAYS = ("could you please look after my {} today", "I wonder about the {} here", "the {} needs some work, thank you")


def documents(requests: int) -> dict[str, Document]:
    return {
        f"{one}_tool": Document(
            f"{one}_tool", f"Works with one {one}.", tuple(way.format(one) for way in WAYS[:requests])
        )
        for one in SUBJECTS
    }


def replaced(known: dict[str, Document]) -> dict[str, Document]:
    """Return the documents, each with a new request instead of its oldest one."""
    return {
        id_: replace(each, examples=(*each.examples[1:], f"a {id_.removesuffix('_tool')} for tomorrow"))
        for id_, each in known.items()
    }


def matrices(path: Path) -> dict[int, bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT version, matrix FROM models"))


def spoil(path: Path, version: int) -> None:
    """Make a version rank the right documents last."""
    matrix = np.frombuffer(matrices(path)[version], dtype=np.float32)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE models SET matrix = ? WHERE version = ?", ((-matrix).tobytes(), version))


def copy(path: Path, version: int, to: int) -> None:
    """Give a version the matrix of another one."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE models SET matrix = ? WHERE version = ?", (matrices(path)[version], to))


def versions(path: Path) -> list[int]:
    with sqlite3.connect(path) as connection:
        found = [row[0] for row in connection.execute("SELECT version FROM models ORDER BY version")]
    connection.close()
    return found


def samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Three samples for each document: a direction of its own, and one that all of them share."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=24) * 3
    own = random.normal(size=(count, 24))
    owners = np.repeat(np.arange(count), 3)
    noise = random.normal(size=(count * 3, 24)) * 0.3
    made = (own[owners] + shared * random.normal(size=(count * 3, 1)) + noise).astype(np.float32)
    return made, owners, np.arange(2, count * 3, 3)


def test_a_trained_index_finds_a_request_like_those_it_knows(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(documents(3), {})
    assert index.train()
    found = index.search("could you please look after my old dog", 3)
    assert found[0].id == "dog_tool"
    assert found[0].learned == 1.0
    index.close()


def test_the_learned_score_of_a_document_is_explained_by_the_words_of_the_request(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(documents(3), {})
    query = "could you please look after my old dog"
    assert index.learned_shares(query, ["dog_tool"]) == {}  # no model
    assert index.train()
    shares = index.learned_shares(query, ["dog_tool", "missing"])
    assert set(shares) == {"dog_tool"}
    words = shares["dog_tool"].words
    assert sum(words.values()) + shares["dog_tool"].meaning == pytest.approx(1)
    assert max(words, key=words.__getitem__) == "dog"
    assert set(words) == {"look", "after", "old", "dog"}
    index.close()


def test_a_model_is_trained_again_only_after_enough_changes_and_two_versions_are_kept(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    for requests, expected in ((1, [1]), (2, [1, 2]), (3, [2, 3])):
        assert index.apply(documents(requests), {})
        assert index.train()
        assert not index.train()
        assert versions(tmp_path / "index.db") == expected
    index.close()


def test_another_process_uses_a_new_version_at_its_next_search(tmp_path: Path) -> None:
    one, other = (StoredIndex(tmp_path / "index.db", EMBEDDER) for _ in range(2))
    assert one.apply(documents(3), {})
    assert other.search("my dog", 1)[0].learned == 0
    assert one.train()
    assert other.search("my dog", 1)[0].learned > 0
    one.close()
    other.close()


def test_a_few_documents_are_ranked_without_a_model(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply({"dog_tool": documents(3)["dog_tool"]}, {})
    assert not index.train()
    assert index.search("my dog", 1)[0].learned == 0
    index.close()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 30))
def test_a_worse_model_never_replaces_a_better_one(seed: int, count: int) -> None:
    made, owners, held = samples(count, seed)
    nothing = made[:0]
    best = LearnedRanking(4, second_moments(made, nothing), 1, 1)
    spoiled = LearnedRanking(4, -best.matrix, 1, 1)
    kept = np.ones(len(made), dtype=bool)
    kept[held] = False
    new = reciprocal_rank(second_moments(made[kept], nothing), made, owners, held)
    plain = reciprocal_rank(None, made, owners, held)
    for old in (best, spoiled):
        before = reciprocal_rank(old.matrix, made, owners, held)
        chosen = trained(old, made, owners, held, nothing).model
        if max(new, before) < plain:
            assert chosen is None
        else:
            assert chosen is not None
            assert chosen.version == (4 if new < before else 5)


def test_requests_that_replace_others_make_training_due(tmp_path: Path) -> None:
    index = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert index.apply(documents(3), {})
    assert index.train()
    assert index.apply(documents(3), {})
    assert not index.training_due()
    assert index.apply(replaced(documents(3)), {})
    assert index.training_due()
    assert index.train()
    assert not index.training_due()
    index.close()


def test_a_version_that_ranks_the_latest_requests_worse_is_rolled_back_without_training(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index, other = (StoredIndex(path, EMBEDDER) for _ in range(2))
    for requests in (2, 3):
        assert index.apply(documents(requests), {})
        assert index.train()
    index.close()
    first = matrices(path)[1]
    spoil(path, 2)
    assert other.search("my dog", 1)
    assert index.apply(replaced(documents(3)), {})  # twelve requests that no version knows
    assert index.train()
    assert "rolled back to version 1, since version 2 ranked the 12 latest requests worse" in index.ranking_note()
    assert "version 3" in other.ranking_note()
    assert other.search("my dog", 1)[0].learned > 0
    assert matrices(path) == {3: first}
    assert not index.training_due()
    index.close()
    other.close()


def test_a_version_that_ranks_the_latest_requests_as_well_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = StoredIndex(path, EMBEDDER)
    for requests in (2, 3):
        assert index.apply(documents(requests), {})
        assert index.train()
    before = matrices(path)
    copy(path, 2, 1)
    assert index.apply(replaced(documents(3)), {})
    assert index.train()  # by then, training is due too
    assert "rolled back" not in index.ranking_note()
    assert matrices(path)[2] == before[2]
    index.close()


@given(st.lists(st.lists(st.text(max_size=5), max_size=6), max_size=4))
def test_hashed_words_are_stored_without_loss_and_give_features_of_length_one(texts: list[list[str]]) -> None:
    codes = [hashed(terms) for terms in texts]
    assert unpacked(packed(codes)) == codes
    made = features(codes, np.zeros((len(codes), 4), dtype=np.float32))
    assert made.shape == (len(codes), 260)
    for row, words in zip(made, codes, strict=True):
        if len({abs(code) for code in words}) == len(words) > 0:
            assert np.linalg.norm(row) == pytest.approx(1)
