"""The hybrid index finds documents by words, meaning, name and example, and repairs its vectors."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.app.settings import SkillSettings
from engine.retrieval.document import Document
from engine.retrieval.index import BATCH, HybridIndex, Ranked, VectorReconciliation
from engine.retrieval.memory import MemoryVectors
from engine.stores.embedder import Vectors, WordLlamaEmbedder
from engine.stores.records import Records
from engine.stores.vectors import VectorStore
from tests.stores.processes import other

EMBEDDER = WordLlamaEmbedder()
FITS = SkillSettings().fits
DOCUMENTS = [
    Document("roman_numeral", "Convert a whole number to a Roman numeral.", ("write 1987 like the Romans did",)),
    Document("triangle_area", "The area of a triangle from its base and height."),
    Document("send_email", "Send an email to a list of people."),
    Document("csv_summary", "Summarize every column of a CSV file: count, mean, missing values."),
    Document("fetch_url", "Download a web page."),
    Document("word_count", "Count how often each word occurs in a text."),
]


@pytest.fixture(params=["chroma", "memory"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HybridIndex]:
    if request.param == "memory":
        yield HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
        return
    store, index = on_disk(tmp_path)
    yield index
    store.close()


def on_disk(folder: Path) -> tuple[VectorStore, HybridIndex]:
    store = VectorStore(folder / "chroma", Records.open(f"sqlite:///{folder / 'records.db'}"))
    return store, HybridIndex(store.collection("skills", EMBEDDER.dimensions), EMBEDDER)


def ids(found: list[Ranked]) -> list[str]:
    return [ranked.id for ranked in found]


def learn_and_wait(pipe: Any, folder: Path) -> None:
    store, index = on_disk(folder)
    index.load(DOCUMENTS)
    pipe.send("loaded")
    while (document := pipe.recv()) is not None:
        index.upsert(document)
        pipe.send(ids(index.search(document.text, 3)))
    store.close()


@pytest.mark.spec("LIST-3", "SKILL-14")
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("how big is a triangular plot of land?", "triangle_area"),
        ("mail my colleagues the news", "send_email"),
        ("give me statistics of data.csv", "csv_summary"),
        ("what does 14 look like in roman numerals", "roman_numeral"),
        ("write 2024 the way the Romans did", "roman_numeral"),
        ("get the page at this web address", "fetch_url"),
    ],
)
def test_a_request_in_other_words_finds_its_document_first(index: HybridIndex, query: str, wanted: str) -> None:
    index.load(DOCUMENTS)
    assert ids(index.search(query, 3))[0] == wanted


@pytest.mark.spec("LIST-3")
@pytest.mark.parametrize("query", ["use word_count on an email about a csv", "USE WORD-COUNT, mail it", "`word_count`"])
def test_a_query_with_an_exact_name_ranks_it_first(index: HybridIndex, query: str) -> None:
    index.load(DOCUMENTS)
    found = index.search(query, 2, weigh=lambda _: {"word_count": 0.0})
    assert found[0].id == "word_count"
    assert found[0].score >= 1.0


def test_results_are_limited_ordered_and_have_their_figures(index: HybridIndex) -> None:
    index.load(DOCUMENTS)
    found = index.search("send a csv file by email", 4)
    assert len(found) == 4
    assert [ranked.score for ranked in found] == sorted((ranked.score for ranked in found), reverse=True)
    assert all(0.0 <= ranked.score <= 1.0 for ranked in found)
    assert found[0].similarity > 0
    assert found[0].bm25 > 0
    assert found == index.search("send a csv file by email", 4)


@pytest.mark.spec("SKILL-14")
def test_the_only_document_fits_a_request_that_matches_it_partly(index: HybridIndex) -> None:
    index.load([Document("slug", "Makes a title into an address.", ("make a slug of this headline",))])
    assert [one.fit > FITS for one in index.search("turn a headline into a url", 1)] == [True]
    for strange in ("bake a cake", "what is the weather in Rome", "hello, how are you"):
        assert [one.fit > FITS for one in index.search(strange, 1)] == [False]


def test_weights_lower_the_rank_of_documents_that_often_fail(index: HybridIndex) -> None:
    index.load(DOCUMENTS)
    query = "count the values in an email"
    first, second, *_ = ids(index.search(query, 6))
    assert ids(index.search(query, 6, weigh=lambda _: {first: 0.1}))[0] == second


def test_a_document_is_found_by_its_example_request(index: HybridIndex) -> None:
    index.load(DOCUMENTS)
    request = "zwölf Boxkämpfer jagen Viktor"
    assert ids(index.search(request, 1)) != ["word_count"]
    index.upsert(Document("word_count", "Count how often each word occurs in a text.", (request,)))
    best = index.search(request, 1)[0]
    assert best.id == "word_count"
    assert best.similarity > 0.99


def test_removed_documents_are_not_found_and_changed_ones_only_by_their_new_text(index: HybridIndex) -> None:
    index.load(DOCUMENTS)
    index.remove("send_email")
    index.remove("never there")
    assert "send_email" not in ids(index.search("send an email", 10))
    before = index.search("download a web page", 1)[0]
    index.upsert(Document("fetch_url", "Boil an egg for seven minutes."))
    assert ids(index.search("cook breakfast eggs", 1)) == ["fetch_url"]
    (after,) = [found for found in index.search("download a web page", 6) if found.id == "fetch_url"]
    assert before.id == "fetch_url"
    assert after.bm25 == 0
    assert after.similarity < before.similarity / 2
    assert len(index) == len(DOCUMENTS) - 1
    assert "fetch_url" in index
    assert "send_email" not in index


def test_unusual_queries_never_raise(index: HybridIndex) -> None:
    assert index.search("anything", 5) == []
    index.load(DOCUMENTS)
    for query in ("", "   ", "\n\0", "😀", "the of", "x" * 100_000, "'; DROP TABLE --"):
        assert len(index.search(query, 3)) <= 3


def test_two_documents_with_one_id_are_refused(index: HybridIndex) -> None:
    with pytest.raises(ValueError, match="roman_numeral"):
        index.load([DOCUMENTS[0], DOCUMENTS[0]])


@pytest.mark.spec("SKILL-10")
def test_loading_makes_missing_vectors_and_deletes_stale_ones_and_then_changes_nothing(index: HybridIndex) -> None:
    assert index.load(DOCUMENTS) == VectorReconciliation(added=7, removed=0)
    assert index.load(DOCUMENTS) == VectorReconciliation(added=0, removed=0)
    changed = [Document("roman_numeral", "Something new."), *DOCUMENTS[1:4]]
    assert index.load(changed) == VectorReconciliation(added=1, removed=4)
    assert len(index) == 4


@pytest.mark.spec("SKILL-10")
def test_rebuilding_makes_every_vector_again_even_a_wrong_one(tmp_path: Path) -> None:
    store, index = on_disk(tmp_path)
    index.load(DOCUMENTS)
    collection = store.collection("skills", EMBEDDER.dimensions)
    right = ids(index.search("mail my colleagues the news", 6))
    wrong = sorted(collection.ids())
    collection.upsert(wrong, EMBEDDER.embed(["mail my colleagues the news"] * len(wrong)))
    assert len({found.similarity for found in index.search("mail my colleagues the news", 6)}) == 1
    assert index.rebuild(DOCUMENTS) == VectorReconciliation(added=7, removed=0)
    assert ids(index.search("mail my colleagues the news", 6)) == right
    store.close()


@pytest.mark.spec("SKILL-10")
def test_a_damaged_vector_store_is_rebuilt_from_the_documents(tmp_path: Path) -> None:
    store, index = on_disk(tmp_path)
    index.load(DOCUMENTS)
    before = index.search("mail my colleagues", 6)
    store.close()
    for file in (tmp_path / "chroma").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    store, index = on_disk(tmp_path)
    assert index.load(DOCUMENTS).added == 7
    after = index.search("mail my colleagues", 6)
    assert ids(after) == ids(before)
    assert [r.score for r in after] == pytest.approx([r.score for r in before], abs=1e-4)
    store.close()


@pytest.mark.spec("SKILL-10")
def test_vectors_lost_at_run_time_are_restored_by_the_next_search(tmp_path: Path) -> None:
    store, index = on_disk(tmp_path)
    index.load(DOCUMENTS)
    before = index.search("mail my colleagues", 6)
    (tmp_path / "chroma").rename(tmp_path / "gone")
    index.search("anything", 1)  # this search notices the loss
    assert ids(index.search("mail my colleagues", 6)) == ids(before)
    assert store.collection("skills", EMBEDDER.dimensions).count() == 7
    store.close()


@pytest.mark.slow
@pytest.mark.spec("STATE-1")
def test_two_processes_share_vectors_and_restore_what_the_other_deleted(tmp_path: Path) -> None:
    store, index = on_disk(tmp_path)
    index.load(DOCUMENTS)
    with other(learn_and_wait, tmp_path) as peer:
        peer.hear()
        assert store.collection("skills", EMBEDDER.dimensions).count() == 7
        new = Document("boil_egg", "Boil an egg for seven minutes.")
        assert peer.ask(new)[0] == "boil_egg"
        assert "boil_egg" not in ids(index.search("cook breakfast eggs", 10))  # not loaded in this process yet
        assert index.load(DOCUMENTS).removed == 1  # taken for stale: this process does not know the document
        newer = Document("bake_bread", "Bake a loaf of bread.")
        assert peer.ask(newer)[0] == "bake_bread"
        assert index.load([*DOCUMENTS, new, newer]) == VectorReconciliation(
            added=0, removed=0
        )  # the other process had restored it
        assert ids(index.search("cook breakfast eggs", 1)) == ["boil_egg"]
    store.close()


class OtherModel:
    """An embedder with another name and reversed vectors, to simulate a change of the model."""

    name = "other"
    dimensions = EMBEDDER.dimensions

    def embed(self, texts: Any) -> Vectors:
        return np.ascontiguousarray(EMBEDDER.embed(texts)[:, ::-1])


def test_threads_may_search_while_others_write(index: HybridIndex) -> None:
    index.load(DOCUMENTS)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(10):
                index.upsert(Document(f"new_{number}", f"thing {turn} of thread {number}"))
                assert index.search("send an email", 1)[0].id == "send_email"
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(index) == len(DOCUMENTS) + 4


MANY = [Document(f"number_{n}", f"What makes number {n} one of its own.") for n in range(3_500)]


def load_many(pipe: Any, folder: Path) -> None:
    _, index = on_disk(folder)
    index.load(MANY, lambda done, of: pipe.send((done, of)))


@pytest.mark.slow
@pytest.mark.spec("SKILL-10", "SKILL-14")
def test_a_killed_load_is_continued_and_is_not_taken_for_complete(tmp_path: Path) -> None:
    with other(load_many, tmp_path) as peer:
        done, of = peer.hear()
        peer.kill()
    assert (done, of) == (BATCH, len(MANY))
    store, index = on_disk(tmp_path)
    assert index.made_by is None
    progress: list[tuple[int, int]] = []
    report = index.load(MANY, lambda done, of: progress.append((done, of)))
    assert report.added <= len(MANY) - BATCH
    assert progress[-1] == (report.added, report.added)
    assert index.made_by == EMBEDDER.name
    assert store.collection("skills", EMBEDDER.dimensions).count() == len(MANY)
    assert ids(index.search("what makes number 3217 special", 1)) == ["number_3217"]
    store.close()


@pytest.mark.spec("SKILL-14")
def test_the_embedder_is_recorded_and_another_one_rebuilds_the_index(tmp_path: Path) -> None:
    store, index = on_disk(tmp_path)
    assert index.made_by is None
    index.load(DOCUMENTS)
    assert index.made_by == EMBEDDER.name
    changed = HybridIndex(store.collection("skills", EMBEDDER.dimensions), OtherModel())
    assert changed.load(DOCUMENTS) == VectorReconciliation(added=7, removed=7)
    assert changed.made_by == "other"
    store.close()
