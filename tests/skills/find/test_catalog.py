"""Skills are found by their descriptions and by past requests, and nothing is found if nothing fits."""

import asyncio
import contextlib
import itertools
import sqlite3
import string
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from acquired_skills.find import indexing
from acquired_skills.find.catalog import Catalog, SkillHit
from acquired_skills.find.indexing import document
from acquired_skills.lifecycle.learned_requests import LearnedRequests
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.past_requests import MOST_CHARACTERS, MOST_KEPT, PastRequests, chosen_of
from engine.retrieval.document import Document
from engine.retrieval.mirror import VectorMirror
from engine.retrieval.reranking import SentenceReranker
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.records import Records
from engine.stores.vector_cache import VectorCache
from engine.stores.vectors import VectorStore
from tests.eventually import eventually
from tests.skills.parts import opened_records, skill

pytestmark = pytest.mark.spec("SKILL-14")

EMBEDDER = WordLlamaEmbedder()
ABOUT = {
    "invoice_total": "Add up the amounts of an invoice.",
    "photo_resize": "Make a photo smaller.",
    "train_times": "Departures of trains from a station.",
}


def put(ledger: Ledger, *names: str, state: SkillState = SkillState.ACTIVE) -> None:
    made = {name: replace(skill(name), description=ABOUT[name], examples=(), state=state) for name in names}
    ledger.put({name: (one, "stamp") for name, one in made.items()})


@asynccontextmanager
async def opened_catalog(home: Path, *, use_past: bool = True) -> AsyncIterator[tuple[Catalog, Ledger, Records]]:
    with opened_records(home) as records:
        vectors = VectorStore(home / "chroma", records)
        ledger = Ledger(records)

        def open_mirror(index: StoredIndex) -> VectorMirror:
            return VectorMirror(index, lambda: vectors.collection("skills_active", 256), EMBEDDER.name)

        def open_index() -> StoredIndex:
            return StoredIndex(home / "skill_index.db", EMBEDDER)

        catalog = Catalog(ledger, open_index, PastRequests(records), use_past=use_past, mirror=open_mirror)
        if not ledger.rows():
            put(ledger, *ABOUT)
        try:
            yield catalog, ledger, records
        finally:
            await catalog.aclose()
            vectors.close()


def names(found: list[SkillHit]) -> list[str]:
    return [one.skill.name for one in found]


async def test_a_skill_is_found_by_requests_for_which_it_succeeded(tmp_path: Path) -> None:
    request = "zwölf Boxkämpfer jagen Viktor"
    async with opened_catalog(tmp_path) as (catalog, _, records):
        assert names(await catalog.search(request, 3, fits=0.15)) == []
        learned = LearnedRequests(PastRequests(records))
        learned.note("train_times", request)
        learned.note("photo_resize", "   ")
        await learned.aclose()
        assert names(await catalog.search(f"{request}!", 3, fits=0.15)) == ["train_times"]
    async with opened_catalog(tmp_path) as (catalog, *_):  # another process
        assert names(await catalog.search(request, 1)) == ["train_times"]
    async with opened_catalog(tmp_path, use_past=False) as (catalog, *_):
        assert names(await catalog.search(request, 3, fits=0.15)) == []


async def test_a_new_request_is_used_by_the_next_search(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, _, records):
        await catalog.search("anything", 1)
        learned = LearnedRequests(PastRequests(records))
        learned.note("train_times", "zwölf Boxkämpfer")
        await learned.aclose()
        assert PastRequests(records).changed() == {"train_times": ("zwölf Boxkämpfer",)}
        assert names(await catalog.search("zwölf Boxkämpfer", 1)) == ["train_times"]
        switched_off = LearnedRequests(PastRequests(records), on=False)
        switched_off.note("photo_resize", "anything")
        await switched_off.aclose()
        assert PastRequests(records).changed().keys() == {"train_times"}


async def test_deleting_a_skill_deletes_the_requests_it_was_called_for(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (_, ledger, records):
        past = PastRequests(records)
        past.keep([("train_times", "to the seaside"), ("photo_resize", "shrink my cat")])
        ledger.put({}, ["train_times"])
        assert past.changed() == {"photo_resize": ("shrink my cat",)}
        ledger.put({}, ["photo_resize"])  # by a process that ends before it updates the index
    async with opened_catalog(tmp_path) as (_, ledger, records):
        assert PastRequests(records).changed() == {}


async def test_nothing_is_found_if_nothing_fits_unless_all_skills_are_requested(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, *_):
        for request in ("good morning", "write a poem about autumn", "thanks, that is all"):
            assert await catalog.search(request, 3, fits=0.15) == []
            assert await catalog.search(request, 3)
        (only,) = await catalog.search("when do trains leave from the station", 3, fits=0.15)
        assert only.skill.name == "train_times"
        assert only.fit > 0.5
        assert names(await catalog.search("photo_resize, and good morning", 3, fits=1.0)) == ["photo_resize"]


@pytest.mark.spec("LIST-3")
async def test_the_vector_store_contains_only_listed_skills(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, ledger, records):
        put(ledger, "photo_resize", state=SkillState.QUARANTINED)
        assert set(names(await catalog.search("make this photo smaller", 3))) == {"invoice_total", "train_times"}
        assert not (tmp_path / "chroma").exists()  # searches do not open it
        await asyncio.to_thread(catalog.mirror)
        vectors = VectorStore(tmp_path / "chroma", records)
        kept = vectors.collection("skills_active", EMBEDDER.dimensions).ids()
        vectors.close()
        assert {id_.split("#")[0] for id_ in kept} == {"invoice_total", "train_times"}


async def test_skills_are_found_after_another_process_has_emptied_the_index(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, *_):
        assert names(await catalog.search("add up an invoice", 1)) == ["invoice_total"]
        StoredIndex(tmp_path / "skill_index.db", EMBEDDER).clear()
        assert names(await catalog.search("add up an invoice", 1)) == ["invoice_total"]
        assert catalog.gap == ""


async def test_skills_are_found_after_the_index_was_damaged(tmp_path: Path) -> None:
    path = tmp_path / "skill_index.db"
    async with opened_catalog(tmp_path) as (catalog, *_):
        assert names(await catalog.search("add up an invoice", 1)) == ["invoice_total"]
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        assert names(await catalog.search("add up another invoice", 1)) == ["invoice_total"]


def test_an_index_that_is_emptied_while_it_is_filled_is_filled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH", 1)
    with opened_records(tmp_path) as records:
        ledger, past = Ledger(records), PastRequests(records)
        put(ledger, *ABOUT)
        here, there = (
            indexing.SkillIndexing(StoredIndex(tmp_path / "i.db", EMBEDDER), ledger, past, use_past=True) for _ in "12"
        )
        made, batches = here.documents, itertools.count(1)

        def documents(skills: Mapping[str, Skill | None]) -> dict[str, Document | None]:
            if next(batches) == len(ABOUT):
                there.index.clear()
            return made(skills)

        monkeypatch.setattr(here, "documents", documents)
        assert not here.catch_up()
        assert there.catch_up()
        assert (there.missing(), len(there.index)) == (0, len(ABOUT))


async def test_a_rebuilt_index_finds_the_same_and_reports_its_progress(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, *_):
        before = await catalog.search("add up what I owe", 3)
        told: list[tuple[int, int]] = []
        assert await catalog.rebuild_index(lambda done, of: told.append((done, of))) == 3
        assert told == [(3, 3)]
        assert names(await catalog.search("add up what I owe", 3)) == names(before)


WORDS = st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=4), max_size=5).map(" ".join)


@given(requests=st.lists(st.one_of(WORDS, st.text(max_size=20)), max_size=30))
def test_a_few_different_requests_are_stored_including_the_newest(requests: list[str]) -> None:
    chosen = chosen_of(requests)
    assert len(chosen) <= MOST_KEPT
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(requests)
    assert not requests or chosen[-1] == requests[-1]
    assert chosen_of(chosen) == chosen


def test_the_most_different_requests_are_stored_and_their_length_is_limited(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        past = PastRequests(records)
        animals = ["dog", "cat", "cow", "pig", "hen", "ant", "bee", "fox", "owl"]
        past.keep([("a_skill", f"feed the {animal} at number {n}") for n, animal in enumerate(animals)])
        past.keep([("a_skill", "x" * 10_000), ("a_skill", "feed the dog at number zero")])
        (kept,) = past.changed().values()
        assert len(kept) <= MOST_KEPT
        assert max(map(len, kept)) == MOST_CHARACTERS
        assert kept[-1] == "feed the dog at number zero"
        before = past.generation()
        past.keep([("a_skill", kept[-1])])
        assert past.generation() == before  # nothing was new, so nothing was written


@pytest.mark.spec("GATE-3")
def test_a_user_with_many_requests_does_not_displace_other_users(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        past = PastRequests(records)
        past.keep([("a_skill", f"ann asks {word}", "ann") for word in ("alpha", "bravo", "charlie")])
        past.keep([("a_skill", f"{number}x{number} other{number}", "bob") for number in range(3 * MOST_KEPT)])
        kept = past.of(["a_skill"])["a_skill"]
        assert len(kept) == MOST_KEPT
        assert [request for request in kept if request.startswith("ann")] == [
            "ann asks alpha",
            "ann asks bravo",
            "ann asks charlie",
        ]


def test_requests_that_were_stored_without_users_are_read_and_kept(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        past = PastRequests(records)
        past.keep([("a_skill", "placeholder")])
        with records.begin() as connection:
            connection.execute(text("UPDATE skill_requests SET requests = '[\"an older request\"]'"))
        past.keep([("a_skill", "a new one", "ann")])
        assert past.of(["a_skill"]) == {"a_skill": ("an older request", "a new one")}


@pytest.mark.spec("GATE-3")
async def test_requests_that_succeeded_train_the_ranking_after_a_search(tmp_path: Path) -> None:
    async with opened_catalog(tmp_path) as (catalog, _, records):
        learned = LearnedRequests(PastRequests(records))
        for word in ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]:
            for name in ABOUT:
                learned.note(name, f"{word} {name.replace('_', ' ')} {word * 2}")
        await learned.aclose()
        assert (await catalog.search("alpha train times", 1))[0].learned == 0

        async def trained() -> bool:
            return (await catalog.search("alpha train times", 1))[0].learned > 0

        await eventually(trained)
        shares = await catalog.learned_shares("alpha train times", ["train_times"])
        assert {"train", "times"} <= set(shares["train_times"].words)


@pytest.mark.spec("SKILL-23")
async def test_a_sentence_encoder_reorders_the_results_and_caches_its_vectors(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        put(ledger, *ABOUT)
        cache = VectorCache(tmp_path / "sentences.db", EMBEDDER.name)
        reranker = SentenceReranker(lambda: EMBEDDER, cache)
        catalog = Catalog(ledger, lambda: StoredIndex(tmp_path / "index.db", EMBEDDER), reranker=lambda: reranker)
        first = await catalog.search("when do trains leave the station", 2)
        assert await asyncio.to_thread(reranker.wait, 60.0)
        found = await catalog.search("when do trains leave the station", 2)
        await catalog.aclose()
        assert names(first)[0] == names(found)[0] == "train_times"
        assert found[0].score > found[1].score
        text = "train times: Departures of trains from a station."
        assert any(each.startswith(text) for each in await asyncio.to_thread(texts_in, cache, ledger))


def texts_in(cache: VectorCache, ledger: Ledger) -> list[str]:
    """Return the texts of skills that have a vector."""
    skills = [row.skill for row in ledger.rows() if row.skill is not None]
    found = list(cache.get(text for each in skills for text in document(each).sentences))
    cache.close()
    return found
