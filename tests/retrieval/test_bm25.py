"""BM25 scores equal those of the published formula after any sequence of additions and removals."""

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.bm25 import BACKGROUND, K1, Bm25
from engine.retrieval.document import Field
from engine.retrieval.terms import Terms, weight_of

WORDS = ["triangle", "area", "mail", "send", "roman", "numeral", "file", "csv", "the", "of", "42"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
FIELDS = st.lists(
    st.builds(
        Field, TEXT, st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([3.0, 12.0]), st.sampled_from([0.3, 0.75])
    ),
    max_size=3,
)
STEPS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), FIELDS)), max_size=30)


def formula_scores(documents: dict[str, list[Field]], query: str) -> dict[str, float]:
    """Compute BM25F directly from the formula, with the usual length of each field in place of the average."""
    terms = Terms()
    counted: dict[str, Counter[str]] = {}
    for id_, fields in documents.items():
        weighted = counted[id_] = Counter()
        for field in fields:
            found = Counter(terms.of(field.text))
            length = 1 - field.b + field.b * found.total() / field.usual
            for term, count in found.items():
                weighted[term] += field.weight * count / length  # type: ignore[assignment]
    scores: dict[str, float] = {}
    for term in set(terms.of(query)):
        holders = [id_ for id_, count in counted.items() if count[term]]
        idf = math.log(1 + (len(documents) + BACKGROUND - len(holders) + 0.5) / (len(holders) + 0.5))
        for id_ in holders:
            count = counted[id_][term]
            scores[id_] = scores.get(id_, 0.0) + weight_of(term) * idf * count * (K1 + 1) / (count + K1)
    return scores


@settings(deadline=None)
@given(steps=STEPS, query=TEXT)
def test_scores_equal_the_formula_after_any_additions_and_removals(
    steps: list[tuple[str, list[Field] | None]], query: str
) -> None:
    index, documents = Bm25(), dict[str, list[Field]]()
    for id_, fields in steps:
        if fields is None:
            index.remove(id_)
            documents.pop(id_, None)
        else:
            index.add(id_, fields)
            documents[id_] = fields
    found = index.search(query, 100)
    expected = formula_scores(documents, query)
    assert len(index) == len(documents)
    assert dict(found).keys() == expected.keys()
    assert all(math.isclose(score, expected[id_], rel_tol=1e-4) for id_, score in found)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@settings(deadline=None)
@given(texts=st.lists(TEXT, max_size=20), query=TEXT, k=st.integers(1, 10))
def test_the_best_k_are_the_first_of_the_whole_ranking(texts: list[str], query: str, k: int) -> None:
    index = Bm25()
    for number, text in enumerate(texts):
        index.add(f"{number:02}", [Field(text)])
    assert index.search(query, k) == index.search(query, 100)[:k]


def test_an_empty_index_and_a_query_of_stop_words_find_nothing() -> None:
    index = Bm25()
    assert index.search("anything", 5) == []
    index.add("a", [Field("the triangle")])
    assert index.search("what is the of", 5) == []
    assert "a" in index
    index.remove("a")
    assert "a" not in index
    assert index.search("triangle", 5) == []


def test_names_are_split_and_words_are_stemmed() -> None:
    terms = Terms().of("convertRomanNumerals parse_HTTPResponse areas Größe 2024")
    assert terms == ["convert", "roman", "numer", "pars", "http", "respons", "area", "grösse", "2024"]
