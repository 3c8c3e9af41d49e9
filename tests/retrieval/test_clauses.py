"""Requests that ask for several things: their clauses, and a search that finds a tool for each (SKILL-14)."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.clauses import MOST_CLAUSES, clauses_of
from engine.retrieval.document import Document
from engine.retrieval.fusion import add_clauses
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.retrieval.stored_index import StoredIndex
from engine.retrieval.terms import Terms
from engine.stores.embedder import WordLlamaEmbedder
from tests.retrieval.test_stored_index import DOCUMENTS

pytestmark = pytest.mark.spec("SKILL-14")

TERMS = Terms()
EMBEDDER = WordLlamaEmbedder()


@pytest.mark.parametrize(
    ("request_", "clauses"),
    [
        (
            "Track my parcel 12. Also, suggest colours for a banner.",
            ["Track my parcel 12.", "Also, suggest colours for a banner."],
        ),
        (
            "fetch the invoice totals and send them to my accountant",
            ["fetch the invoice totals", "send them to my accountant"],
        ),
        (
            "List movies from 1999, and can you find similar ones?",
            ["List movies from 1999", "can you find similar ones?"],
        ),
        (
            "Do this:\n- count the words of a page\n2) translate the title",
            ["count the words of a page", "translate the title"],
        ),
        ("convert 3.5 miles to kilometres", []),
        ("compare the prices of apples and pears", []),
        ("Thanks! Compute the hypotenuse of a triangle.", []),
    ],
)
def test_a_request_is_split_where_it_asks_for_something_else(request_: str, clauses: list[str]) -> None:
    assert clauses_of(request_, TERMS) == clauses


@given(st.text(max_size=200))
def test_clauses_are_parts_of_the_request_in_order(request_: str) -> None:
    clauses = clauses_of(request_, TERMS)
    assert len(clauses) != 1
    assert len(clauses) <= MOST_CLAUSES
    at = 0
    for clause in clauses:
        at = request_.index(clause, at) + len(clause)


def test_the_best_candidates_of_every_clause_rank_above_one_that_matches_a_little_of_each() -> None:
    whole = np.array([1.0, 0.6, 0.6], dtype=np.float32)
    clauses = [np.array([0.5, 1.0, 0.0], dtype=np.float32), np.array([0.5, 0.0, 1.0], dtype=np.float32)]
    scores = add_clauses(whole, clauses)
    assert scores[1] == scores[2] > scores[0]
    assert (add_clauses(whole, []) == whole).all()


NEEDED = {
    "resize_image": "Change the width and height of an image.",
    "rgb_to_hex": "Convert a colour from red, green and blue to hexadecimal.",
    "moon_phase": "Tell the phase of the moon on a date.",
}
LONG = (
    "I run a small shop with my family and we all love colours. Please change the width and height of the image of our "
    "shop, and convert the red, green and blue colour of our logo to hexadecimal. Also tell me the phase of the moon on Friday."
)


def test_every_tool_that_a_request_needs_is_among_the_first_results_of_both_indexes(tmp_path: Path) -> None:
    documents = DOCUMENTS | {id_: Document(id_, text) for id_, text in NEEDED.items()}
    memory = HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER)
    memory.load(documents.values())
    stored = StoredIndex(tmp_path / "index.db", EMBEDDER)
    stored.apply(documents, {})
    for index in (memory, stored):
        assert {found.id for found in index.search(LONG, len(NEEDED))} == NEEDED.keys()
    first, second = memory.search(LONG, 5), stored.search(LONG, 5)
    assert [one.id for one in first] == [one.id for one in second]
    stored.close()


def test_a_request_with_clauses_searches_an_empty_index(tmp_path: Path) -> None:
    stored = StoredIndex(tmp_path / "index.db", EMBEDDER)
    assert stored.search(LONG, 5) == []
    stored.close()
    assert HybridIndex(MemoryVectors(EMBEDDER.dimensions), EMBEDDER).search(LONG, 5) == []
