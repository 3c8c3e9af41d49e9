"""An index of passages finds answers by their context, is shared by processes, and keeps nothing of what was erased."""

import sqlite3
import string
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.contract.failure import ConfigError
from engine.retrieval.background import background_lines
from engine.retrieval.passage import EVERYTHING, Passage, PassageFilter
from engine.retrieval.passage_index import PassageIndex
from engine.stores.embedder import Vectors, WordLlamaEmbedder
from engine.stores.locks import StoreBusy

pytestmark = pytest.mark.spec("MEM-11")

EMBEDDER = WordLlamaEmbedder()
TALK = (
    ("Ann", "I had a long week at the bakery."),
    ("Ben", "Where did you go on your holiday?"),
    ("Ann", "To Zanzibar, with my sister."),
    ("Ben", "That sounds lovely. My dog ate a shoe."),
    ("Ann", "Poor dog! Did you call a vet?"),
    ("Ben", "No, he is fine."),
)
WORDS = st.sampled_from(["train", "trains", "photo", "Ann", "Ben", "dog?", "station", "vet", "holiday", "the", "7"])
TEXT = st.lists(WORDS, max_size=6).map(" ".join)
PLACES = [(id_, group, at) for group in ("", "g", "h") for at, id_ in enumerate(f"{group}{c}" for c in "abcd")]
MADE = st.builds(
    lambda place, text, title, time: Passage(place[0], text, title, place[1], place[2], "turn", "s", time),
    st.sampled_from(PLACES),
    TEXT,
    st.sampled_from(["", "Ann", "Ben"]),
    st.sampled_from([0.0, 1e9, 1.7e9]),
)


def talk(group: str = "talk", **fields: object) -> dict[str, Passage]:
    """Return the passages of a conversation."""
    made = [Passage(f"{group}{at}", text, who, group, at) for at, (who, text) in enumerate(TALK)]
    return {each.id: replace(each, **fields) for each in made}  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PassageIndex]:
    made = PassageIndex(tmp_path / "passages.db", EMBEDDER)
    yield made
    made.close()


def scores(index: PassageIndex, query: str) -> dict[str, tuple[float, float]]:
    """Return the score and the fit of every passage that a search finds."""
    return {each.id: (round(each.score, 3), round(each.fit, 3)) for each in index.search(query, 100)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.one_of(MADE, st.sampled_from([place[0] for place in PLACES])), min_size=1, max_size=25),
    query=TEXT,
    at_once=st.integers(1, 30),
)
def test_it_ranks_like_a_new_index_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Passage | str], query: str, at_once: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    changed, new = (PassageIndex(folder / name, EMBEDDER) for name in ("changed.db", "new.db"))
    kept: dict[str, Passage] = {}
    for start in range(0, len(changes), at_once):
        batch = {
            each if isinstance(each, str) else each.id: None if isinstance(each, str) else each
            for each in changes[start : start + at_once]
        }
        assert changed.apply(batch, {})
        kept = {id_: each for id_, each in {**kept, **batch}.items() if each is not None}
    new.apply(kept, {})
    assert len(changed) == len(new) == len(kept)
    assert changed.ids() == kept.keys()
    assert scores(changed, query) == scores(new, query)
    tables = ("terms", "words", "names")
    assert [texts(folder / "changed.db", table) for table in tables] == [
        texts(folder / "new.db", table) for table in tables
    ]
    changed.close()
    new.close()


def texts(path: Path, table: str) -> set[tuple[str, int]]:
    """Return the texts of a table, each with the number of its holders."""
    connection = sqlite3.connect(path)
    try:
        return set(connection.execute(f"SELECT text, holders FROM {table}"))
    finally:
        connection.close()


def test_an_answer_without_words_of_the_request_is_found_by_the_question_before_it(index: PassageIndex) -> None:
    index.apply(talk(), {})
    found = [each.id for each in index.search("Where did Ann go on holiday?", 2)]
    assert "talk2" in found


def test_a_passage_is_found_by_the_month_of_its_time(index: PassageIndex) -> None:
    index.apply({"a": Passage("a", "We ate soup.", time=1.69e9), "b": Passage("b", "We ate soup.", time=1.6e9)}, {})
    assert index.search("What did we eat in July 2023?", 1)[0].id == "a"
    assert index.search("What did we eat in September 2020?", 1)[0].id == "b"


def test_a_passage_near_the_one_that_a_request_follows_up_on_ranks_higher(index: PassageIndex) -> None:
    index.apply(talk("x") | talk("y"), {})
    assert index.search("What about the dog?", 1, near="x4")[0].id.startswith("x")
    assert index.search("What about the dog?", 1, near="y4")[0].id.startswith("y")
    assert index.search("What about the dog?", 1, near="unknown")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (PassageFilter(kinds=["fact"]), {"b"}),
        (PassageFilter(spaces=["personal:ann", "unknown"]), {"a"}),
        (PassageFilter(groups=["letters"]), {"c"}),
        (PassageFilter(groups=[]), set()),
        (PassageFilter(since=200.0), {"b", "c"}),
        (PassageFilter(until=200.0), {"a"}),
        (PassageFilter(as_of=150.0), {"b", "c"}),
        (PassageFilter(as_of=100.0), {"b", "c", "a"}),
        (PassageFilter(since=200.0, as_of=99.0), {"b"}),
    ],
)
def test_filters_are_applied_before_the_best_are_taken(
    index: PassageIndex, where: PassageFilter, expected: set[str]
) -> None:
    text = "The key is under the mat."
    index.apply(
        {
            "a": Passage("a", text, "", "notes", 0, "passage", "personal:ann", 100.0, valid_to=150.0),
            "b": Passage("b", text, "", "notes", 1, "fact", "shared:home", 200.0),
            "c": Passage("c", text, "", "letters", 0, "passage", "shared:home", 300.0, valid_from=100.0),
        },
        {},
    )
    assert {each.id for each in index.search("where is the key?", 3, where)} == expected
    assert {id_ for id_, _ in index.similar(text, 3, where)} == expected
    for best in index.search("where is the key?", 1, where):
        assert best.id in expected


def test_a_passage_that_a_filter_excludes_does_not_change_the_scores_of_its_neighbours(index: PassageIndex) -> None:
    secret = Passage("secret", "Where did you go on your holiday?", "Ben", "talk", 1, space="personal:ben")
    answer = Passage("answer", "To Zanzibar.", "Ann", "talk", 2, space="personal:ann")
    other = Passage("other", "We bake bread on a holiday.", "Ann", "bakery", 0, space="personal:ann")
    mine = PassageFilter(spaces=["personal:ann"])
    index.apply({"secret": secret, "answer": answer, "other": other}, {})
    with_secret = index.search("Where did you go on holiday?", 2, mine)
    index.apply({"secret": replace(secret, text="Nothing of interest.")}, {})
    assert [each.id for each in index.search("Where did you go on holiday?", 2, mine)] == [
        each.id for each in with_secret
    ]


def test_near_duplicates_are_similar(index: PassageIndex) -> None:
    index.apply({"tea": Passage("tea", "Ann likes oolong tea."), "dog": Passage("dog", "Ben walks his dog.")}, {})
    (best, cosine), (_, other) = index.similar("Ann likes oolong tea a lot.", 2)
    assert best == "tea"
    assert cosine > 0.8 > other


def test_the_fit_of_a_question_about_something_else_is_low(index: PassageIndex) -> None:
    index.apply(talk(), {})
    answered = index.search("Where did Ann go on holiday with her sister?", 1)[0].fit
    unanswered = [max((each.fit for each in index.search(line, 3)), default=0.0) for line in background_lines()[::20]]
    assert answered > 0.3
    assert np.mean([fit < answered / 3 for fit in unanswered]) > 0.9


def test_two_processes_see_each_others_changes(tmp_path: Path) -> None:
    first, second = (PassageIndex(tmp_path / "passages.db", EMBEDDER) for _ in range(2))
    assert second.search("dog", 3) == []
    assert first.apply(talk(), {"version": "7"})
    assert second.note("version") == "7"
    assert len(second) == len(TALK)
    assert [each.id for each in second.search("the dog ate a shoe", 1)] == ["talk3"]
    assert second.apply({"talk3": None}, {})
    assert "talk3" not in {each.id for each in first.search("the dog ate a shoe", 10)}
    first.clear()
    assert second.search("dog", 3) == []
    for each in (first, second):
        each.close()


def test_threads_search_while_another_writes(index: PassageIndex) -> None:
    index.apply(talk(), {})
    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(index.search, "the dog ate a shoe", 1) for _ in range(20)]
        for number in range(20):
            assert index.apply({f"more{number}": Passage(f"more{number}", f"A note about the number {number}.")}, {})
        assert {search.result()[0].id for search in searches} == {"talk3"}


def test_nothing_is_written_while_another_process_writes(index: PassageIndex, tmp_path: Path) -> None:
    index.apply(talk(), {})
    other = sqlite3.connect(tmp_path / "passages.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not index.apply({"new": Passage("new", "A new note.")}, {})
    other.execute("ROLLBACK")
    other.close()
    assert index.apply({"new": Passage("new", "A new note.")}, {})


def test_a_damaged_file_is_replaced_by_an_empty_one(index: PassageIndex, tmp_path: Path) -> None:
    index.apply(talk(), {})
    index.close()
    (tmp_path / "passages.db").write_bytes(b"no database" * 1000)
    assert len(index) == 0
    assert index.apply(talk(), {})
    assert index.search("the dog ate a shoe", 1)[0].id == "talk3"


def test_a_file_made_with_another_embedder_is_replaced(tmp_path: Path) -> None:
    class Other:
        name, dimensions = "other", 8

        def embed(self, texts: list[str]) -> Vectors:
            return np.array([[len(text) % (2 + at) for at in range(8)] for text in texts], dtype=np.float32).reshape(
                -1, 8
            )

    first = PassageIndex(tmp_path / "passages.db", EMBEDDER)
    first.apply(talk(), {})
    first.close()
    second = PassageIndex(tmp_path / "passages.db", Other())
    assert len(second) == 0
    second.apply(talk(), {})
    assert "talk3" in {each.id for each in second.search("the dog ate a shoe", 2)}
    second.close()


def vocabulary(count: int) -> list[str]:
    """Return words that occur nowhere else."""
    chance = np.random.default_rng(3)
    return ["".join(chance.choice(list(string.ascii_lowercase), 12)) for _ in range(count)]


def places_of(folder: Path, words: list[str]) -> list[tuple[str, str]]:
    """Return the files in which a word occurs, in UTF-8 or UTF-16, each with the word."""
    content = {file.name: file.read_bytes().lower() for file in folder.iterdir()}
    forms = {word: (word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")) for word in words}
    return [
        (name, word) for name, data in content.items() for word in words if any(form in data for form in forms[word])
    ]


def test_no_byte_of_a_removed_passage_is_left_after_erase(index: PassageIndex, tmp_path: Path) -> None:
    words = vocabulary(200)
    secrets = {
        f"id{word}": Passage(f"id{word}", f"The {word} of {each}.", f"title{word}", f"group{word}", at, f"kind{word}")
        for at, (word, each) in enumerate(zip(words, reversed(words), strict=True))
    }
    index.apply(talk(), {})
    index.apply(secrets, {})
    index.search(f"the {words[0]}", 5)
    assert places_of(tmp_path, words)
    vectors = [row.tobytes() for row in index._arrays.vectors.rows[len(TALK) : len(TALK) + len(secrets)]]
    index.apply(dict.fromkeys(secrets), {})
    index.erase()
    assert places_of(tmp_path, words) == []
    assert [vector for vector in vectors if vector in (tmp_path / "passages.db").read_bytes()] == []
    assert index.ids() == set(talk())
    assert index.search("the dog ate a shoe", 1)[0].id == "talk3"


def test_replaced_texts_are_erased_too(index: PassageIndex, tmp_path: Path) -> None:
    word, other = vocabulary(2)
    index.apply({"a": Passage("a", f"My password is {word}.")}, {})
    index.apply({"a": Passage("a", f"My password is {other}.")}, {})
    index.erase()
    assert places_of(tmp_path, [word]) == []
    assert places_of(tmp_path, [other])


def test_erase_says_so_if_another_process_keeps_reading(
    index: PassageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.retrieval.passage_index.ERASE_DEADLINE_S", 0.1)
    index.apply(talk(), {})
    other = sqlite3.connect(tmp_path / "passages.db", isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM passages").fetchone()
    index.apply({"talk0": None}, {})
    with pytest.raises(StoreBusy, match="could not be erased"):
        index.erase()
    other.execute("ROLLBACK")
    other.close()
    index.erase()


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    index = PassageIndex(tmp_path / "folder", EMBEDDER)
    with pytest.raises(ConfigError, match="search index"):
        index.search("anything", 1)


@pytest.mark.parametrize("query", ["", "the of", "?", "7", "\u65e5\u672c\u8a9e \U0001f600", "x" * 20_000])
@pytest.mark.parametrize("passages", [{}, {"empty": Passage("empty", "")}, talk()])
def test_any_request_can_be_searched_for(index: PassageIndex, query: str, passages: Mapping[str, Passage]) -> None:
    index.apply(passages, {})
    found = index.search(query, 3)
    assert {each.id for each in found} <= passages.keys()
    assert all(0 <= each.fit <= 1 for each in found)
    assert len(index.similar(query, 3, EVERYTHING)) == min(3, len(passages))
