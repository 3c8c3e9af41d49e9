"""Documents named in a request rank first; an ordinary word counts as a name only if it is used as one."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.clauses import clauses_of
from engine.retrieval.document import Document, tool_document
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.retrieval.naming import names_in
from engine.retrieval.terms import Terms
from engine.stores.embedder import WordLlamaEmbedder

pytestmark = pytest.mark.spec("SKILL-14")
EMBEDDER = WordLlamaEmbedder()
PART = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=5)
NAME = st.lists(PART, min_size=1, max_size=3).map("_".join).filter(lambda name: name[0].isalpha())
TEXT = st.lists(st.sampled_from(["sends", "mail", "area", "triangle", "use", "word", "to", "csv"]), max_size=6).map(
    " ".join
)
PHRASES = (
    "use {}",
    "{}",
    "please call {} on the triangle's area",
    "send the mail with `{}`, then stop",
    "the {} skill",
    "{}(1)",
)


@settings(deadline=None, max_examples=60)
@given(
    names=st.lists(NAME, min_size=2, max_size=6, unique=True),
    texts=st.lists(TEXT, min_size=6, max_size=6),
    phrase=st.sampled_from(PHRASES),
    data=st.data(),
)
def test_a_document_named_in_the_request_is_first_among_any_others(
    names: list[str], texts: list[str], phrase: str, data: st.DataObject
) -> None:
    index = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    index.load([Document(name, text) for name, text in zip(names, texts, strict=False)])
    wanted = data.draw(st.sampled_from(names))
    request = phrase.format(wanted)
    others = [name for name in names if name != wanted]
    weights = {wanted: 0.0, **dict.fromkeys(others, 1.0)}
    found = index.search(request, len(names), lambda _: weights)
    assert found[0].id == wanted or found[0].id in names_in(request)
    assert found[0].named
    assert found[0].fit == 1.0
    assert wanted in [each.id for each in found if each.named]


def test_an_ordinary_word_is_a_name_only_if_it_is_used_as_one() -> None:
    assert "add" not in names_in("add milk to the list")
    assert "add_all" in names_in("please add_all of it")
    for request in (
        "add",
        "use add on it",
        "`add` them",
        "the add tool please",
        "add(1, 2) is what?",
        "call “add” now",
    ):
        assert "add" in names_in(request), request


def test_among_names_that_differ_only_in_spelling_the_exact_one_is_first() -> None:
    index = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    index.load([Document("get-page", "Gets."), Document("get_page", "Gets."), Document("GET_PAGE", "Gets.")])
    for name in ("get-page", "get_page", "GET_PAGE"):
        assert index.search(f"use {name}", 3)[0].id == name
    index.remove("get_page")
    assert {found.id for found in index.search("use get_page", 2) if found.named} == {"get-page", "GET_PAGE"}


def test_invalid_and_deeply_nested_parameters_are_ignored() -> None:
    inner = {"type": "object", "properties": {"city": {"description": "where", "enum": ["Rome", 3]}, "odd": 5}}
    schema = {"properties": {"places": {"type": "array", "items": inner}, "strange": {"enum": "no list"}}}
    document = tool_document("weather.get", "Forecast.", schema)
    assert document.details == "places city where strange"
    assert document.choices == "Rome 3"
    assert tool_document("x", "y", {"properties": ["not", "a", "mapping"]}).details == ""
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"properties": {"again": deep}}
    assert tool_document("x", "y", deep).details.split() == ["again"] * 4


@pytest.mark.timeout(60)  # with quadratic time each of these would take hours
@pytest.mark.parametrize("part", ["acgt", " ", ".", "a.b-", "\n", ", ", "'", "use ", " \t", " and"])
def test_requests_of_any_length_are_read_in_linear_time(part: str) -> None:
    request = f"Which {part * (2_000_000 // len(part))} is this?"
    assert "Which" not in names_in(request)
    clauses_of(request, Terms())


def test_a_request_with_characters_that_cannot_be_encoded_is_searched_for() -> None:
    index = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    index.load([Document("get_page", "Gets a page.")])
    assert index.search("get a page \udcff\ud800", 1)[0].id == "get_page"
