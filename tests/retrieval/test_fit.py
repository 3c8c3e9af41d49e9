"""The probability that a document fits is monotonic in its evidence, and stays put while requests are learned."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.app.settings import SkillSettings
from engine.retrieval.background import Background, background_lines
from engine.retrieval.document import Document
from engine.retrieval.fit import FitEvidence
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.stores.embedder import WordLlamaEmbedder

pytestmark = pytest.mark.spec("GATE-4")

EMBEDDER = WordLlamaEmbedder()
FITS = SkillSettings().fits
ABOUT = {
    "invoice_total": "Add up the amounts of an invoice.",
    "photo_resize": "Make a photo smaller, or larger.",
    "train_times": "Departures of trains from a station.",
    "roman_numeral": "Write a whole number in Roman numerals.",
    "mail_friends": "Send an email to a list of people.",
    "csv_columns": "Summarize every column of a CSV file.",
    "translate_text": "Translate a text into another language.",
    "book_table": "Book a table in a restaurant.",
}
LEARNED = {
    "invoice_total": ["can you tell me what this bill comes to?", "how much do I owe them all together"],
    "photo_resize": ["my picture is too big, please make it smaller", "I need this image half as wide"],
    "train_times": ["when can I get to Bern tonight?", "how do I go to my sister by rail tomorrow"],
    "roman_numeral": ["what is 14 the way Caesar would have written it?", "put the year on the clock like the Romans"],
    "mail_friends": ["let everybody know that I will be late", "tell my team about the party"],
    "csv_columns": ["what is in this table of numbers?", "give me the averages of my data"],
    "translate_text": ["what does this mean in French?", "how would you say good morning in Japanese"],
    "book_table": ["we want to eat out on Friday, four of us", "find us a place for dinner tonight"],
}
SMALL_TALK = [
    "hello there",
    "how are you doing?",
    "who are you",
    "I feel tired today",
    "you are wrong",
    "my dog ran away",
]
FIGURE = st.floats(0, 50)
EVIDENCE = st.builds(FitEvidence, FIGURE, FIGURE, st.floats(-6, 9), st.floats(0, 1), st.floats(-4, 9))


def made(requests: dict[str, list[str]]) -> HybridIndex:
    index = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    index.load([Document(name, text, tuple(requests.get(name, ()))) for name, text in ABOUT.items()])
    return index


def best(index: HybridIndex, texts: Sequence[str]) -> list[float]:
    return [index.search(text, 1)[0].fit for text in texts]


@given(EVIDENCE, st.sampled_from(["words", "request", "nearness", "head"]), st.floats(0, 10))
def test_more_evidence_never_lowers_the_probability(evidence: FitEvidence, field: str, more: float) -> None:
    stronger = replace(evidence, **{field: getattr(evidence, field) + more})
    assert 0 <= evidence.probability <= stronger.probability <= 1


@given(EVIDENCE, st.floats(0, 10))
def test_a_request_that_resembles_small_talk_more_never_fits_better(evidence: FitEvidence, more: float) -> None:
    assert replace(evidence, chat=evidence.chat + more).probability <= evidence.probability


@pytest.mark.parametrize("requests", [{}, LEARNED])
def test_small_talk_fits_nothing_and_a_request_fits_its_skill(requests: dict[str, list[str]]) -> None:
    index = made(requests)
    assert max(best(index, SMALL_TALK)) < FITS
    for request, name in (
        ("write 1987 in roman numerals", "roman_numeral"),
        ("when does the next train leave from this station", "train_times"),
        ("please resize this photo", "photo_resize"),
    ):
        found = index.search(request, 1)[0]
        assert (found.id, found.fit > FITS) == (name, True)


def test_learning_requests_raises_small_talk_less_than_requests_like_them() -> None:
    before, after = made({}), made(LEARNED)
    alike = ["what is this bill all together", "let my team know that I am late"]
    gains = [new - old for old, new in zip(best(before, alike), best(after, alike), strict=True)]
    drifts = [new - old for old, new in zip(best(before, SMALL_TALK), best(after, SMALL_TALK), strict=True)]
    assert min(gains) > max(drifts)


def test_the_lines_of_small_talk_are_distinct_and_resemble_small_talk() -> None:
    lines = background_lines()
    assert len(lines) == len(set(lines)) > 300
    background = Background(EMBEDDER)
    chat, request = EMBEDDER.embed(
        ["hello, how are you today my friend", "convert the invoices of March to a CSV file"]
    )
    assert background.resemblance(chat) > 1
    assert background.resemblance(request) < 0


def test_the_evidence_is_part_of_every_result() -> None:
    [found] = made(LEARNED).search("resize this photo", 1)
    assert found.evidence is not None
    assert found.fit == pytest.approx(found.evidence.probability)
    assert json.dumps(found.evidence.terms)
