"""Fusion combines two rankings and keeps the order on which both agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.fusion import combine, fuse

IDS = st.sampled_from("abcdefgh")
SPARSE = st.dictionaries(IDS, st.floats(0.01, 50.0))
DENSE = st.dictionaries(IDS, st.floats(-1.0, 1.0))
WEIGHT = st.floats(0.0, 1.0)


@given(sparse=SPARSE, dense=DENSE, weight=WEIGHT)
def test_every_id_has_a_score_from_0_to_1(sparse: dict[str, float], dense: dict[str, float], weight: float) -> None:
    fused = fuse(sparse, dense, weight)
    assert fused.keys() == sparse.keys() | dense.keys()
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in fused.values())


@given(sparse=SPARSE, dense=DENSE, weight=WEIGHT)
def test_a_document_that_is_better_in_both_rankings_is_not_worse_after_fusion(
    sparse: dict[str, float], dense: dict[str, float], weight: float
) -> None:
    fused = fuse(sparse, dense, weight)
    both = sorted(sparse.keys() & dense.keys())
    for one in both:
        for two in both:
            if sparse[one] >= sparse[two] and dense[one] >= dense[two]:
                assert fused[one] >= fused[two] - 1e-9


def test_scores_are_weighted_and_divided_by_the_best() -> None:
    fused = fuse({"a": 10.0, "b": 5.0}, {"b": 0.8, "c": 0.4}, 0.6)
    assert fused == pytest.approx({"a": 0.4 + 0.6 * 0.5, "b": 0.2 + 0.6, "c": 0.6 * 0.5})


def test_if_one_ranking_is_empty_only_the_other_counts() -> None:
    assert fuse({}, {"a": 0.5, "b": 0.25}) == {"a": 1.0, "b": 0.5}
    assert fuse({"a": 4.0, "b": 1.0}, {}) == {"a": 1.0, "b": 0.25}
    assert fuse({}, {}) == {}
    assert fuse({}, {"a": -0.5}) == {"a": 0.0}


FIGURES = st.lists(st.tuples(*[st.floats(-1.0, 50.0, width=32)] * 4), min_size=1, max_size=8)


@given(figures=FIGURES, terms=st.integers(0, 40))
def test_combined_scores_are_from_0_to_1_and_a_document_best_in_all_figures_is_first(
    figures: list[tuple[float, float, float, float]], terms: int
) -> None:
    columns = np.array(figures, dtype=np.float32).T
    scores = combine(*columns, terms)
    assert ((scores >= 0) & (scores <= 1 + 1e-5)).all()
    best = columns.max(axis=1, keepdims=True)
    assert combine(*np.hstack([columns, best]), terms)[-1] >= scores.max() - 1e-5
