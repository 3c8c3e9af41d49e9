"""The vectors of a sentence encoder are added to an index later, agree with its words, and are erased with them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builtin_tools.memory.encoder import load_sentences
from engine.retrieval.passage import Passage
from engine.retrieval.passage_arrays import to_bytes
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_encoding import EncodingState, UnencodedPassage, state_of_file
from engine.retrieval.passage_fit import SENTENCE_FIT
from engine.retrieval.passage_index import PassageIndex
from engine.retrieval.passage_text import embedded_text
from engine.stores.embedder import Vectors, WordLlamaEmbedder
from tests.retrieval.topic_encoder import TopicEncoder, topic_encoder

pytestmark = pytest.mark.spec("MEM-12")

EMBEDDER, ENCODER = WordLlamaEmbedder(), topic_encoder()
NOTES = {
    "a": Passage("a", "The boiler was repaired by Mr Hansen."),
    "b": Passage("b", "The cellar was painted by Mr Olsen."),
    "c": Passage("c", "Ada is a gymnast.", "Ada", "talk", 0),
    "d": Passage("d", "Ben has a bicycle.", "Ben", "talk", 1),
}
TEXTS = st.sampled_from(["boiler", "heating on", "Ada is a gymnast", "the dog", "vet?", "", "7"])
CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), TEXTS)), min_size=1, max_size=8)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PassageIndex]:
    made = PassageIndex(tmp_path / "passages.db", EMBEDDER, ENCODER)
    yield made
    made.close()


def encode(index: PassageIndex, kept: dict[str, Passage], most: int = 1_000) -> list[UnencodedPassage]:
    """Encode some of the passages that have no vector yet, and return them."""
    missing = index.unencoded(most)
    assert index.encode({each: kept[each.id] for each in missing})
    return missing


def vectors(index: PassageIndex, path: Path) -> dict[str, bytes]:
    """Return the stored vector of each passage, read independently of the code under test."""
    index.close()
    with PassageIndex(path, EMBEDDER)._reading() as connection:
        chunks = {
            chunk: np.frombuffer(data, np.int8).reshape(256, -1)
            for chunk, data in connection.execute("SELECT chunk, vectors FROM encoded")
        }
        rows = connection.execute("SELECT id, slot FROM passages").fetchall()
        return {id_: chunks[slot // 256][slot % 256].tobytes() for id_, slot in rows}


def expected(kept: dict[str, Passage], encoder: PassageEncoder = ENCODER) -> dict[str, bytes]:
    made = to_bytes(encoder.embedder.embed([embedded_text(each) for each in kept.values()]))
    return {id_: vector.tobytes() for id_, vector in zip(kept, made, strict=True)}


def files_with(folder: Path, vector: bytes) -> list[str]:
    """Return the files that contain a part of a vector. A page of SQLite may end in the middle of one."""
    parts = [vector[at : at + 64] for at in range(0, len(vector), 64)]
    return [
        file.name for file in folder.iterdir() for content in (file.read_bytes(),) if any(p in content for p in parts)
    ]


def test_searches_use_the_encoder_once_no_vector_is_missing(index: PassageIndex) -> None:
    index.apply(NOTES, {})
    plain = index.search("Who fixed the heating?", 4)
    assert index.use_encoder(ENCODER.identity)
    assert index.encoding() == EncodingState(ENCODER.identity, 0, 4)
    encode(index, NOTES, 3)
    assert index.encoding() == EncodingState(ENCODER.identity, 3, 4)
    assert index.search("Who fixed the heating?", 4) == plain
    encode(index, NOTES)
    assert index.encoding().complete_for(ENCODER.identity)
    best = index.search("Who fixed the heating?", 4)[0]
    assert best.id == "a"
    assert best.fit > max(each.fit for each in plain if each.id == "a")
    assert index.alike("Who fixed the heating?", 4) == {"a"}


def test_a_new_passage_is_found_at_once_and_encoded_later(index: PassageIndex) -> None:
    index.apply(NOTES, {})
    index.use_encoder(ENCODER.identity)
    encode(index, NOTES)
    new = {"e": Passage("e", "The radiator is cold.")}
    index.apply(new, {})
    assert index.search("cold radiator", 1)[0].id == "e"
    assert [each.id for each in index.unencoded(9)] == ["e"]
    encode(index, new)
    assert index.encoding().complete_for(ENCODER.identity)
    assert {"a", "e"} <= {each.id for each in index.search("warm", 2)}


def test_the_vector_of_a_passage_that_was_replaced_or_removed_meanwhile_is_not_stored(
    index: PassageIndex, tmp_path: Path
) -> None:
    index.apply(NOTES, {})
    index.use_encoder(ENCODER.identity)
    old = {each: NOTES[each.id] for each in index.unencoded(9)}
    kept = {**NOTES, "a": Passage("a", "The dog needs a vet.")}
    del kept["b"]
    index.apply({"a": kept["a"], "b": None}, {})
    assert index.encode(old)
    assert [each.id for each in index.unencoded(9)] == ["a"]
    encode(index, kept)
    assert vectors(index, tmp_path / "passages.db") == expected(kept)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(CHANGES, st.integers(0, 4)), min_size=1, max_size=8), query=TEXTS)
def test_vectors_and_words_agree_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[tuple[str, str | None]], int]], query: str
) -> None:
    folder = tmp_path_factory.mktemp("index")
    changed, new = (PassageIndex(folder / name, EMBEDDER, ENCODER) for name in ("changed.db", "new.db"))
    kept: dict[str, Passage] = {}
    changed.use_encoder(ENCODER.identity)
    for changes, most in batches:
        batch = {id_: None if text is None else Passage(id_, text) for id_, text in dict(changes).items()}
        changed.apply(batch, {})
        kept = {id_: each for id_, each in {**kept, **batch}.items() if each is not None}
        encode(changed, kept, most)
        changed.search(query, 3)
    encode(changed, kept)
    new.apply(kept, {})
    new.use_encoder(ENCODER.identity)
    encode(new, kept)
    assert changed.encoding() == new.encoding() == EncodingState(ENCODER.identity, len(kept), len(kept))
    results = [
        {each.id: (round(each.score, 3), round(each.fit, 3)) for each in one.search(query, 9)} for one in (changed, new)
    ]
    assert results[0] == results[1]
    assert vectors(changed, folder / "changed.db") == expected(kept)
    new.close()


def test_a_request_is_encoded_once_for_several_searches(tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting(TopicEncoder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            asked.extend(texts)
            return super().embed(texts)

    encoder = PassageEncoder(Counting(), SENTENCE_FIT)
    every = [PassageIndex(tmp_path / name, EMBEDDER, encoder) for name in ("one.db", "two.db")]
    for index in every:
        index.apply(NOTES, {})
        index.use_encoder(encoder.identity)
        encode(index, NOTES)
    asked.clear()
    for index in every:
        assert index.search("Who fixed the heating?", 1)[0].id == "a"
        assert index.alike("Who fixed the heating?", 4) == {"a"}
        index.close()
    assert asked == ["Who fixed the heating?"]


def test_two_processes_see_each_others_vectors(tmp_path: Path) -> None:
    first, second = (PassageIndex(tmp_path / "passages.db", EMBEDDER, ENCODER) for _ in range(2))
    first.apply(NOTES, {})
    assert second.alike("the heating", 4) == set()
    first.use_encoder(ENCODER.identity)
    encode(first, NOTES)
    assert second.alike("the heating", 4) == {"a"}
    second.apply({"a": None}, {})
    assert first.alike("the heating", 4) == set()
    for each in (first, second):
        each.close()


def test_vectors_of_another_encoder_are_not_used_and_can_be_replaced(index: PassageIndex, tmp_path: Path) -> None:
    other = topic_encoder("other topics")
    index.apply(NOTES, {})
    index.use_encoder(ENCODER.identity)
    encode(index, NOTES)
    second = PassageIndex(tmp_path / "passages.db", EMBEDDER, other)
    assert second.search("the heating", 4) == PassageIndex(tmp_path / "passages.db", EMBEDDER).search("the heating", 4)
    assert second.use_encoder(other.identity)
    late = {each: NOTES[each.id] for each in second.unencoded(9)}
    assert index.encode(late)  # by a process that still has the previous encoder
    assert second.encoding() == EncodingState(other.identity, 0, 4)
    encode(second, NOTES)
    second.erase()
    assert not any(files_with(tmp_path, vector) for vector in expected(NOTES).values())
    assert all(files_with(tmp_path, vector) for vector in expected(NOTES, other).values())
    second.close()


def test_no_byte_of_a_removed_passages_vectors_is_left_after_erase(index: PassageIndex, tmp_path: Path) -> None:
    index.apply(NOTES, {})
    index.use_encoder(ENCODER.identity)
    encode(index, NOTES)
    removed = [expected(NOTES)[id_] for id_ in ("a", "b")]
    assert all(files_with(tmp_path, vector) for vector in removed)
    index.apply({"a": None, "b": None}, {})
    index.erase()
    assert [files_with(tmp_path, vector) for vector in removed] == [[], []]
    assert index.search("exercise", 1)[0].id == "c"


def test_the_state_of_a_file_is_read_without_opening_the_index(index: PassageIndex, tmp_path: Path) -> None:
    index.apply(NOTES, {})
    assert state_of_file(tmp_path / "passages.db") == EncodingState("", 0, 4)
    index.use_encoder(ENCODER.identity)
    encode(index, NOTES, 1)
    assert state_of_file(tmp_path / "passages.db") == EncodingState(ENCODER.identity, 1, 4)
    assert state_of_file(tmp_path / "none.db") == EncodingState()
    assert not (tmp_path / "none.db").exists()


@pytest.mark.services  # needs the extra `sentences`, which `make test-services` installs beside the environment
def test_the_sentence_encoder_finds_an_answer_in_other_words(tmp_path: Path) -> None:
    encoder = load_sentences()
    index = PassageIndex(tmp_path / "passages.db", EMBEDDER, encoder)
    index.apply(NOTES, {})
    assert "a" not in index.alike("Who fixed the heating?", 4)
    index.use_encoder(encoder.identity)
    encode(index, NOTES)
    assert index.alike("Who fixed the heating?", 4) == {"a"}
    assert index.search("Who fixed the heating?", 1)[0].id == "a"
    assert index.alike("What is the capital of France?", 4) == set()
    index.close()
