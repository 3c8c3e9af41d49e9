"""After the encoder was changed, the memory is re-indexed in the background, while words answer and nothing is lost."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from builtin_tools.memory.encoder import EncoderLoader
from builtin_tools.memory.owner_index import ENCODED_AT_ONCE, ENCODED_IN_SEARCH, MARKER
from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.service import FactToAdd
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.retrieval.passage import EVERYTHING
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_encoding import EncodingState, state_of_file
from engine.retrieval.passage_fit import SENTENCE_FIT
from engine.stores.embedder import Vectors, WordLlamaEmbedder
from engine.stores.locks import FileLock
from tests.builtin_tools.memory.conftest import MemoryHome, SetClock, open_memory
from tests.builtin_tools.memory.stored_vectors import ENCODER, OWNER, file_of, right_vectors, stored_vectors
from tests.builtin_tools.memory.victim import reindex
from tests.retrieval.topic_encoder import TopicEncoder, loader_of, topic_encoder
from tests.stores.processes import other

ADA, BOB = Turn(user="ada"), Turn(user="bob")
HEATING = "The boiler was seen by Mr Hansen."
QUESTION = RecallRequest("Who fixed the heating?")
DEADLINE_S = 60.0

pytestmark = pytest.mark.spec("MEM-12")
OpenHome = Callable[[EncoderLoader | None], MemoryHome]


@pytest.fixture
def opened(tmp_path: Path, embedder: WordLlamaEmbedder) -> Iterator[OpenHome]:
    """Opens the memory of one home, again and again if needed, and closes it."""
    every: list[MemoryHome] = []

    def open_(encoder: EncoderLoader | None) -> MemoryHome:
        every.append(open_memory(tmp_path / "home", SetClock(), embedder, encoder=encoder))
        return every[-1]

    yield open_
    for one in every:
        one.close()


class GatedEncoder(TopicEncoder):
    """Encodes the texts of entries only while its gate is open. Requests are always encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reached = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) > 1:
            self.reached.set()
            if not self.gate.wait(DEADLINE_S):
                raise TimeoutError("The gate stayed closed.")
        return super().embed(texts)


def fill(home: MemoryHome, count: int = ENCODED_IN_SEARCH + 10) -> None:
    """Add facts, among them `HEATING`, and index their words."""
    home.service._add(ADA, FactToAdd(HEATING))
    for number in range(count):
        home.service._add(ADA, FactToAdd(f"Parcel x{number} is on shelf y{number}."))
    home.indexes.of(OWNER).catch_up()


def found_anywhere(home: MemoryHome, wanted: list[bytes]) -> list[bytes]:
    """Return what a file of the home contains."""
    content = b"\xff".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file())
    return [each for each in wanted if each in content]


def parts(vectors: dict[str, bytes]) -> list[bytes]:
    """Return parts of vectors to search for, because a page of SQLite may end in the middle of a vector."""
    return [vector[at : at + 64] for vector in vectors.values() for at in range(0, len(vector), 64)]


async def test_words_answer_and_say_so_until_the_memory_is_re_indexed(opened: OpenHome) -> None:
    words = opened(None)
    fill(words)
    assert (await words.service.recall(ADA, QUESTION)).hits == ()
    words.close()
    encoder = GatedEncoder()
    home = opened(loader_of(PassageEncoder(encoder, SENTENCE_FIT)))
    home.service.reindexing.start(0)
    assert encoder.reached.wait(DEADLINE_S)
    meanwhile = await home.service.recall(ADA, RecallRequest("Where is parcel x3?"))
    assert meanwhile.hits[0].entry.text == "Parcel x3 is on shelf y3."
    assert "being re-indexed" in meanwhile.note
    assert "0 of 19 entries" in meanwhile.note
    added = await home.service.add(ADA, FactToAdd("The radiator is cold."))
    assert added.entry in [hit.entry for hit in (await home.service.recall(ADA, RecallRequest("radiator cold"))).hits]
    encoder.gate.set()
    assert home.service.reindexing.run().entries == 20
    done = await home.service.recall(ADA, QUESTION)
    assert HEATING in [hit.entry.text for hit in done.hits]
    assert done.note == ""
    assert stored_vectors(home) == right_vectors(home)


async def test_a_few_new_facts_are_encoded_by_the_next_search(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    for text in (HEATING, "Ada is a gymnast."):
        await home.service.add(ADA, FactToAdd(text))
    found = await home.service.recall(ADA, QUESTION)
    assert ([hit.entry.text for hit in found.hits], found.note) == ([HEATING], "")
    assert home.indexes.of(OWNER).encoded()


def test_many_new_facts_are_encoded_in_the_background_after_a_search(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    fill(home, 2 * ENCODED_AT_ONCE)
    home.indexes.alike(OWNER, "heating", 5)
    home.indexes._background[OWNER].join(DEADLINE_S)
    assert home.indexes.of(OWNER).encoded()
    assert len(home.indexes.alike(OWNER, "heating", 5)) == 1


def test_progress_counts_the_entries_of_all_owners(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    fill(home, 2 * ENCODED_AT_ONCE)
    home.service._add(BOB, FactToAdd("Bob's bicycle is green."))
    counts: list[tuple[int, int]] = []
    done = home.service.reindexing.run(lambda done, of: counts.append((done, of)))
    assert (done.encoder, done.owners, done.entries) == (ENCODER.identity, 2, 2 * ENCODED_AT_ONCE + 2)
    assert counts == sorted(counts)
    assert counts[-1] == (done.entries, done.entries)
    assert len(counts) > 2


def test_one_process_works_on_an_index_and_the_other_waits(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    fill(home)
    one = home.indexes.of(OWNER)
    with FileLock(file_of(home).with_suffix(".encoding.lock")).exclusive():  # as another process that encodes
        assert not one.encode()
        thread = threading.Thread(target=home.service.reindexing.run)
        thread.start()
        assert home.indexes.search(OWNER, "parcel x3", 1, EVERYTHING)
        assert one.index.encoding().encoded == 0
    thread.join(DEADLINE_S)
    assert one.encoded()


async def test_what_is_forgotten_while_the_memory_is_re_indexed_is_nowhere_in_the_home(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    fill(home, 3 * ENCODED_AT_ONCE)
    one = home.indexes.of(OWNER)
    assert one._encode_batch(replace=False) is None  # the encoder is noted
    assert one._encode_batch(replace=False) is None
    vectors = right_vectors(home)
    with home.store.reading() as memory:
        victims = [each for each in memory.entries([OWNER]) if each.text == HEATING or "x1" in each.text]
    encoded = one.index.encoding().encoded
    secret = {each.id: vectors[each.id] for each in victims}
    assert found_anywhere(home, parts(secret))
    await home.service.forget(await home.service.preview(ADA, ids=[each.id for each in victims]))
    assert one.index.encoding().encoded < encoded
    home.service.reindexing.run()
    assert stored_vectors(home) == right_vectors(home)
    home.close()
    assert not found_anywhere(home, [*parts(secret), *(each.text.encode() for each in victims)])


async def test_resetting_a_user_deletes_the_vectors_too(opened: OpenHome) -> None:
    home = opened(loader_of(ENCODER))
    fill(home)
    home.service.reindexing.run()
    vectors = right_vectors(home)
    assert found_anywhere(home, parts(vectors))
    await home.service.forget_user("ada")
    assert not found_anywhere(home, parts(vectors))


@pytest.mark.parametrize("next_encoder", [None, topic_encoder("other topics")])
def test_the_vectors_of_the_previous_encoder_are_deleted_after_the_change(
    opened: OpenHome, next_encoder: PassageEncoder | None
) -> None:
    first = opened(loader_of(ENCODER))
    fill(first)
    first.service.reindexing.run()
    vectors = right_vectors(first)
    assert vectors == stored_vectors(first)
    first.close()
    second = opened(None if next_encoder is None else loader_of(next_encoder))
    second.service.reindexing.start(0)
    thread = second.service.reindexing._thread
    assert thread is not None
    thread.join(DEADLINE_S)
    assert (second.indexes.folder / MARKER).exists() == (next_encoder is not None)
    identity = "" if next_encoder is None else next_encoder.identity
    assert second.indexes.of(OWNER).index.encoding().encoder == identity
    second.close()
    assert not found_anywhere(second, parts(vectors))
    third = opened(None if next_encoder is None else loader_of(next_encoder))
    assert third.service.reindexing.needed == (next_encoder is not None)


async def test_without_the_encoder_words_answer_and_the_reason_is_known(
    opened: OpenHome, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> PassageEncoder:
        raise ConfigError("The package is not installed. Run `pip install it`.")

    loader = EncoderLoader(lambda: "missing:3", fail)
    home = opened(loader)
    fill(home)
    found = await home.service.recall(ADA, RecallRequest("Where is parcel x3?"))
    assert (found.hits[0].entry.text, found.note) == ("Parcel x3 is on shelf y3.", "")
    assert loader.problem.startswith("The package is not installed.")
    assert caplog.text.count("without the sentence encoder") == 1
    with pytest.raises(ConfigError, match="pip install it"):
        home.service.reindexing.run()


@pytest.mark.slow
def test_a_process_killed_while_it_re_indexes_loses_nothing_and_the_next_one_continues(opened: OpenHome) -> None:
    home = opened(None)
    fill(home, 6 * ENCODED_AT_ONCE)
    path, total = file_of(home), 6 * ENCODED_AT_ONCE + 1
    before = 0
    for batches in (1, 2, 3):
        with other(reindex, str(home.root)) as process:
            for _ in range(batches):
                assert process.hear()[0] == "encoding"
            process.kill()
        state = state_of_file(path)
        assert state == EncodingState(ENCODER.identity, state.encoded, total)
        assert before + (batches - 1) * ENCODED_AT_ONCE <= state.encoded < total
        before = state.encoded
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
        found = home.service._add(ADA, FactToAdd(f"The key of door z{batches} is red."))
        assert home.indexes.search(OWNER, f"key door z{batches}", 1, EVERYTHING)[0].id == found.entry.id
        total += 1
    with other(reindex, str(home.root)) as process:
        steps = [process.hear()]
        while steps[-1][0] != "done":
            steps.append(process.hear())
        assert process.end() == 0
    assert sum(int(count) for _, count, _ in steps[:-1]) == total - before
    assert state_of_file(path) == EncodingState(ENCODER.identity, total, total)
    assert stored_vectors(home) == right_vectors(home)
    assert home.indexes.of(OWNER).index.ids() == right_vectors(home).keys()
