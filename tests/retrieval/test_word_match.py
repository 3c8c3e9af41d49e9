"""Equal words match fully, similar words partly, and removed documents leave nothing behind."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.interned import Interned
from engine.retrieval.terms import Terms
from engine.retrieval.word_match import WordMatch
from engine.stores.embedder import WordLlamaEmbedder

EMBEDDER = WordLlamaEmbedder()
TERMS = Terms()
TEXT = st.lists(st.sampled_from(["send", "mails", "mail", "letter", "area", "of", "triangles", "7"]), max_size=6)


def figures(match: WordMatch, query: str, *ids: str) -> list[tuple[float, float]]:
    words = TERMS.with_words(query)
    found = match.match(words, dict.fromkeys(words, 1.0), ids)
    return list(zip(found.covered.tolist(), found.meant.tolist(), strict=True))


def test_a_similar_word_counts_less_than_an_equal_one_and_more_than_an_unrelated_one() -> None:
    match = WordMatch(EMBEDDER, TERMS)
    for id_, text in (("same", "send mails"), ("alike", "send letters"), ("other", "send triangles"), ("none", "")):
        match.add(id_, text, "")
    (same, alike, other, none) = figures(match, "send a mail", "same", "alike", "other", "none")
    assert same == (1.0, 1.0)
    assert same > alike > other > none == (0.0, 0.0)


def test_only_words_of_the_head_count_for_the_share_of_the_document() -> None:
    match = WordMatch(EMBEDDER, TERMS)
    match.add("short", "send mail", "subject body attachment")
    match.add("long", "send mail subject body attachment", "")
    (short, long) = figures(match, "send mail", "short", "long")
    assert short == (1.0, 1.0)
    assert long[0] == 1.0
    assert long[1] < 1.0


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.tuples(TEXT, TEXT))), max_size=12),
    query=TEXT.map(" ".join),
)
def test_earlier_additions_and_removals_do_not_change_the_result(
    steps: list[tuple[str, tuple[list[str], list[str]] | None]], query: str
) -> None:
    match, left = WordMatch(EMBEDDER, TERMS), dict[str, tuple[str, str]]()
    for id_, texts in steps:
        if texts is None:
            match.remove(id_)
            left.pop(id_, None)
        else:
            left[id_] = (" ".join(texts[0]), " ".join(texts[1]))
            match.add(id_, *left[id_])
    fresh = WordMatch(EMBEDDER, TERMS)
    for id_, texts_ in left.items():
        fresh.add(id_, *texts_)
    for got, wanted in zip(figures(match, query, *left), figures(fresh, query, *left), strict=True):
        assert abs(got[0] - wanted[0]) < 1e-4
        assert abs(got[1] - wanted[1]) < 1e-4
        assert all(0 <= each <= 1 + 1e-5 for each in got)


@given(held=st.lists(st.lists(st.text(max_size=2), max_size=5), max_size=8))
def test_released_numbers_are_reused(held: list[list[str]]) -> None:
    interned = Interned()
    numbers = [interned.hold(texts)[0] for texts in held]
    distinct = {text for texts in held for text in texts}
    assert len(interned) == len(distinct)
    assert {interned.get(text) for text in distinct} == set(range(len(distinct)))
    for each in numbers:
        interned.release(each)
    assert all(interned.get(text) is None for text in distinct)
    interned.hold([f"new {number}" for number in range(len(distinct))])
    assert len(interned) == len(distinct)
