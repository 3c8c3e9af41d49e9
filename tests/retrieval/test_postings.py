"""Scores by the postings of a file equal those by all postings, however they are kept in memory."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.document import Document
from engine.retrieval.index_file import IndexFile
from engine.retrieval.index_writer import TABLES, IndexWriter
from engine.retrieval.postings import Postings, above, best_of, terms_of
from engine.retrieval.terms import Terms
from engine.stores.embedder import WordLlamaEmbedder

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


def test_scores_and_impacts_agree_for_rare_and_common_terms(tmp_path: Path) -> None:
    file, embedder = IndexFile(tmp_path / "index.db", "test", TABLES), WordLlamaEmbedder()
    documents = {f"d{at}": Document(f"d{at}", "common rare" if at % 20 == 7 else "common") for at in range(60)}
    assert file.write(lambda connection: IndexWriter(embedder, Terms()).write(connection, documents, {}))
    with file.reading() as (connection, _):
        numbers = [number for number, _ in terms_of(connection, ["common", "rare"]).values()]
        weights = dict(zip(numbers, (0.5, 2.0), strict=True))
        postings, slots = Postings(), [7, 0, 47, 59]
        scores = postings.scores(connection, weights, 60)
        impacts = postings.impacts(connection, numbers, slots, 60)
        assert np.allclose(np.array([0.5, 2.0], dtype=np.float32) @ impacts, scores[slots])
        assert scores[7] > scores[0] > 0
        assert np.flatnonzero(scores > scores[0] + 1e-6).tolist() == [7, 27, 47]
        connection.execute("DELETE FROM postings")
        assert np.array_equal(postings.scores(connection, weights, 60), scores)  # kept in memory
        postings.clear()
        assert not postings.scores(connection, weights, 60).any()
    file.close()
