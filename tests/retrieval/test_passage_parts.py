"""The parts of an index of passages: packed postings, the selection of the best, and codes of vectors."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.retrieval.packed_postings import TermPostings, impacts_of, merge_postings, packed_postings, quantized
from engine.retrieval.passage import Passage
from engine.retrieval.passage_arrays import CodedVectors, bit_codes, cosines, to_bytes
from engine.retrieval.passage_candidates import above, best
from engine.retrieval.passage_text import asks, month_of

pytestmark = pytest.mark.spec("MEM-11")

TABLE = (
    "CREATE TABLE postings (term INTEGER, chunk INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, chunk)) WITHOUT ROWID"
)
CHANGE = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 500, 16_383, 16_384, 70_000]), st.integers(0, 255))


@settings(deadline=None)
@given(batches=st.lists(st.lists(CHANGE, max_size=12), max_size=6))
def test_merged_postings_are_those_of_a_dictionary(batches: list[list[tuple[int, int, int]]]) -> None:
    expected: dict[tuple[int, int], int] = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        for batch in batches:
            changes = {(term, slot): impact for term, slot, impact in batch}
            keys = np.array(list(changes), dtype=np.int64).reshape(-1, 2)
            values = np.array(list(changes.values()), dtype=np.uint8)
            merge_postings(connection, keys[:, 0], keys[:, 1], values)
            expected.update(changes)
        for term in range(4):
            slots, impacts = packed_postings(connection, term)
            kept = sorted((slot, impact) for (of, slot), impact in expected.items() if of == term and impact)
            assert slots.tolist() == [slot for slot, _ in kept]
            assert np.allclose(impacts, impacts_of(np.array([impact for _, impact in kept], dtype=np.uint8)))


def test_an_impact_is_never_rounded_to_none() -> None:
    assert quantized(np.array([1e-6, 1.0, 2.19], dtype=np.float32)).min() >= 1


def test_the_most_frequent_terms_are_skipped_if_a_search_would_read_too_many_postings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.retrieval.packed_postings.MOST_POSTINGS", 5)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        slots = np.array([0, 1, 2, 3, 4, 5, 0, 1])
        merge_postings(connection, np.array([0] * 6 + [1] * 2), slots, np.full(8, 9, dtype=np.uint8))
        holders = {0: 6, 1: 2}
        both = TermPostings.read(connection, {0: 1.0, 1: 2.0}, holders, None)
        assert both.weights == [2.0]
        assert both.scores(6)[2:].max() == 0
        only = TermPostings.read(connection, {0: 1.0}, holders, None)
        assert only.scores(6)[:6].min() > 0


@given(figures=st.lists(st.integers(0, 50), max_size=2_000), count=st.integers(1, 20))
def test_the_greatest_figures_are_selected(figures: list[int], count: int) -> None:
    values = np.array(figures, dtype=np.float32)
    selected = set(above(values, count).tolist())
    kth = sorted(figures, reverse=True)[min(count, len(figures)) - 1] if figures else 0
    assert {at for at, figure in enumerate(figures) if figure > kth} <= selected
    found = best(np.arange(len(values)), values, count).tolist()
    assert found == [at for at, figure in enumerate(figures) if figure >= kth and figure > 0]


@pytest.mark.parametrize("size", [50_000, 500_000])
def test_not_many_more_figures_than_the_greatest_are_selected(size: int) -> None:
    figures = np.random.default_rng(9).normal(size=size)
    assert 1_000 <= len(above(figures, 1_000)) <= 2_000


@pytest.mark.parametrize("dimensions", [1, 8, 64, 100, 256])
def test_vectors_in_bytes_and_bits_keep_their_order(dimensions: int) -> None:
    vectors = np.random.default_rng(5).normal(size=(300, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = to_bytes(vectors)
    assert np.abs(cosines(rows, vectors[0]) - vectors @ vectors[0]).max() < 0.02
    coded = CodedVectors("chunks", dimensions)
    coded.rows, coded.codes = rows, bit_codes(rows)
    near = coded.nearness(vectors[0])
    signs = ((rows > 0) != (vectors[0] > 0)).sum(axis=1)
    assert near.tolist() == (255 - signs).tolist()
    assert cosines(np.zeros((1, dimensions), dtype=np.int8), vectors[0]).tolist() == [0.0]


def test_a_text_that_ends_with_a_question_asks() -> None:
    assert asks(Passage("a", 'She said: "Why not?" '))
    assert not asks(Passage("b", "Why? Because."))


def test_a_month_is_named_in_words_if_there_is_one() -> None:
    assert month_of(1_690_000_000.0) == "July 2023"
    assert [month_of(time) for time in (0.0, float("inf"), 1e30, float("nan"))] == [""] * 4


@pytest.mark.parametrize("dimensions", [64, 256, 384])
def test_vectors_are_nearer_the_more_signs_are_equal(dimensions: int) -> None:
    vector = np.random.default_rng(1).standard_normal(dimensions).astype(np.float32)
    rows = np.stack([vector, vector, vector, -vector])
    rows[1, :5] *= -1
    rows[2, :60] *= -1
    rows[3, 0] *= -1
    vectors = CodedVectors("encoded", dimensions)
    vectors.rows, vectors.codes = to_bytes(rows), bit_codes(rows)
    near = vectors.nearness(vector).astype(int)
    assert (near[0] - near).tolist() == [0, 5, 60, dimensions - 1]
