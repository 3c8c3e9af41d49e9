"""BM25: the textbook's scores, whatever was added and removed on the way."""

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.bm25 import K1, B, Bm25
from engine.retrieval.terms import Terms

WORDS = ["triangle", "area", "mail", "send", "roman", "numeral", "file", "csv", "the", "of"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
STEPS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), TEXT)), max_size=30)


def by_the_book(documents: dict[str, str], query: str) -> dict[str, float]:
    """Okapi BM25 written out as the formula is printed."""
    terms = Terms()
    counted = {id_: Counter(terms.of(text)) for id_, text in documents.items()}
    average = max(sum(count.total() for count in counted.values()) / max(len(documents), 1), 1.0)
    scores: dict[str, float] = {}
    for term in set(terms.of(query)):
        holders = [id_ for id_, count in counted.items() if count[term]]
        idf = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for id_ in holders:
            count = counted[id_][term]
            length = 1 - B + B * counted[id_].total() / average
            scores[id_] = scores.get(id_, 0.0) + idf * count * (K1 + 1) / (count + K1 * length)
    return scores


@settings(deadline=None)
@given(steps=STEPS, query=TEXT)
def test_scores_are_the_textbooks_after_any_adding_and_removing(
    steps: list[tuple[str, str | None]], query: str
) -> None:
    index, documents = Bm25(), dict[str, str]()
    for id_, text in steps:
        if text is None:
            index.remove(id_)
            documents.pop(id_, None)
        else:
            index.add(id_, text)
            documents[id_] = text
    found = index.search(query, 100)
    expected = by_the_book(documents, query)
    assert len(index) == len(documents)
    assert dict(found).keys() == expected.keys()
    assert all(math.isclose(score, expected[id_], rel_tol=1e-4) for id_, score in found)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@settings(deadline=None)
@given(texts=st.lists(TEXT, max_size=20), query=TEXT, k=st.integers(1, 10))
def test_the_best_k_are_the_head_of_the_whole_ranking(texts: list[str], query: str, k: int) -> None:
    index = Bm25()
    for number, text in enumerate(texts):
        index.add(f"{number:02}", text)
    assert index.search(query, k) == index.search(query, 100)[:k]


def test_nothing_is_found_in_nothing_and_for_stop_words_only() -> None:
    index = Bm25()
    assert index.search("anything", 5) == []
    index.add("a", "the triangle")
    assert index.search("what is the of", 5) == []
    assert "a" in index
    index.remove("a")
    assert "a" not in index
    assert index.search("triangle", 5) == []


def test_names_are_taken_apart_and_words_stemmed() -> None:
    terms = Terms().of("convertRomanNumerals parse_HTTPResponse areas Größe 2024")
    assert terms == ["convert", "roman", "numer", "pars", "http", "respons", "area", "grösse", "2024"]
