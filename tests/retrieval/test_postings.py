"""Scores by the postings of a file equal those by all postings, however they are kept in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.postings import above, best_of

pytestmark = pytest.mark.spec("SKILL-14")

SCORES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 7.0]), max_size=300)


@given(scores=SCORES, count=st.integers(1, 20))
def test_the_best_scores_are_found_with_all_ties(scores: list[float], count: int) -> None:
    array = np.array(scores, dtype=np.float32)
    positive = sorted((score for score in scores if score > 0), reverse=True)
    last = positive[min(count, len(positive)) - 1] if positive else 1.0
    expected = {at: score for at, score in enumerate(scores) if score >= last}
    assert best_of(array, count) == expected


@given(scores=SCORES, count=st.integers(1, 20))
def test_a_preselection_contains_all_of_the_greatest_scores(scores: list[float], count: int) -> None:
    array = np.array(scores, dtype=np.float32)
    found = above(array, count)
    assert list(found) == sorted(found)
    kth = sorted(scores, reverse=True)[:count]
    assert sum(score > kth[-1] for score in scores) <= len(found) if scores else not len(found)
    assert set(np.flatnonzero(array >= kth[-1]).tolist()) <= set(found.tolist()) if scores else True
