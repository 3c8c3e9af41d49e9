"""Reranking by sentences (SKILL-14). WordLlama stands in for the transformer, which is optional."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.failure import ConfigError
from engine.retrieval.ranked import Ranked
from engine.retrieval.reranking import SentenceReranker
from engine.stores import sentence_embedder
from engine.stores.embedder import Embedder, WordLlamaEmbedder
from engine.stores.sentence_embedder import SentenceEmbedder, installed
from engine.stores.vector_cache import VectorCache

pytestmark = pytest.mark.spec("SKILL-14")

EMBEDDER = WordLlamaEmbedder()
DEADLINE_S = 60.0
TEXTS = {"bake": ("bake a chocolate cake",), "rain": ("weather forecast: rain and wind",), "named": ("anything",)}
RESULTS = (Ranked("named", 1.9, named=True), Ranked("bake", 0.8), Ranked("rain", 0.7))
QUERY = "weather with rain"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    made = VectorCache(tmp_path / "vectors.db", EMBEDDER.name)
    yield made
    made.close()


def ids(results: list[Ranked]) -> list[str]:
    return [one.id for one in results]


def test_results_with_similar_sentences_come_first_after_named_ones(cache: VectorCache) -> None:
    reranker = SentenceReranker(lambda: EMBEDDER, cache)
    reranker.rerank(QUERY, RESULTS, TEXTS, {})
    assert reranker.wait(DEADLINE_S)
    assert ids(reranker.rerank(QUERY, RESULTS, TEXTS, {})) == ["named", "rain", "bake"]
    failing = (*RESULTS[:2], Ranked("rain", 0.07))  # the scores of a search contain the factors
    assert ids(reranker.rerank(QUERY, failing, TEXTS, {"rain": 0.1})) == ["named", "bake", "rain"]
    reranker.close()


def test_a_search_does_not_wait_for_the_model(cache: VectorCache) -> None:
    gate = threading.Event()

    def load() -> Embedder:
        assert gate.wait(DEADLINE_S)
        return EMBEDDER

    reranker = SentenceReranker(load, cache)
    assert reranker.rerank(QUERY, RESULTS, TEXTS, {}) == list(RESULTS)
    gate.set()
    assert reranker.wait(DEADLINE_S)
    assert ids(reranker.rerank(QUERY, RESULTS, TEXTS, {})) == ["named", "rain", "bake"]
    reranker.close()


def test_a_result_without_vectors_keeps_its_relative_score(cache: VectorCache) -> None:
    reranker = SentenceReranker(lambda: EMBEDDER, cache)
    reranker.rerank(QUERY, RESULTS, TEXTS, {})
    assert reranker.wait(DEADLINE_S)
    found = reranker.rerank(QUERY, (Ranked("new", 0.9), *RESULTS[1:]), TEXTS, {})
    assert {one.id: one.score for one in found}["new"] == pytest.approx(1.0)
    reranker.close()


def test_a_model_that_cannot_be_loaded_leaves_the_results_as_they_are(
    cache: VectorCache, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> Embedder:
        raise ConfigError("no model")

    reranker = SentenceReranker(load, cache)
    assert reranker.rerank(QUERY, RESULTS, TEXTS, {}) == list(RESULTS)
    reranker.close()
    assert "no model" in caplog.text


def test_the_best_clause_of_a_request_counts(cache: VectorCache) -> None:
    reranker = SentenceReranker(lambda: EMBEDDER, cache)
    query = "Tell me how my old friends in town are doing. Also, show the weather forecast with rain."
    reranker.rerank(query, RESULTS, TEXTS, {})
    assert reranker.wait(DEADLINE_S)
    assert ids(reranker.rerank(query, RESULTS, TEXTS, {}))[1] == "rain"
    reranker.close()


def test_words_and_sentences_of_the_same_clause_count_together(cache: VectorCache) -> None:
    reranker = SentenceReranker(lambda: EMBEDDER, cache)
    query = "Add up the amounts of my invoice. Also, show the weather forecast with rain."
    results = (Ranked("bake", 0.8, clauses=(0.1, 0.1)), Ranked("rain", 0.8, clauses=(0.1, 1.0)))
    apart = (Ranked("bake", 0.8, clauses=(0.1, 0.1)), Ranked("rain", 0.8, clauses=(1.0, 0.1)))
    reranker.rerank(query, results, TEXTS, {})
    assert reranker.wait(DEADLINE_S)
    scores = [{one.id: one.score for one in reranker.rerank(query, each, TEXTS, {})} for each in (results, apart)]
    assert scores[0]["rain"] > scores[1]["rain"] > 0
    reranker.close()


def test_vectors_are_kept_for_one_model_and_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    path, vector = tmp_path / "vectors.db", np.array([0.6, 0.8], dtype=np.float32)
    first = VectorCache(path, "model")
    first.put({"a": vector})
    first.close()
    for model, found in (("model", {"a"}), ("other", set())):
        again = VectorCache(path, model)
        assert set(again.get(["a", "b"])) == found
        again.close()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.write_bytes(b"not a database" * 100)
    damaged = VectorCache(path, "model")
    assert damaged.get(["a"]) == {}
    damaged.put({"a": vector})
    damaged.close()
    assert np.allclose(VectorCache(path, "model").get(["a"])["a"], vector, atol=1e-3)


@pytest.mark.services  # needs the extra `sentences`, which `make test-services` installs beside the environment
def test_the_sentence_encoder_depends_on_the_order_of_words() -> None:
    embedder = SentenceEmbedder()
    texts = ["the dog bites the man", "the man bites the dog", " "]
    one, other, empty = embedder.embed(texts)
    assert one @ other < 0.999  # a mean of word vectors would give 1
    assert np.linalg.norm(one) == pytest.approx(1.0, abs=1e-4)
    assert not empty.any()


@pytest.mark.services
def test_a_text_gets_the_same_vector_in_whatever_company_it_is_embedded() -> None:
    embedder = SentenceEmbedder()
    sentence = "the dog that bit a man in the rain was brought home by its owner before night fell"
    words = sentence.split()
    texts = [" ".join(words[start : start + length]) for length in (1, 2, 5, 9, 18) for start in (0, 3)] + ["", "dog"]
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1.0] * 10 + [0.0, 1.0], abs=1e-4)


@given(st.lists(st.integers(1, sentence_embedder.MAX_TOKENS), max_size=40))
def test_texts_are_embedded_together_only_with_texts_of_similar_length(lengths: list[int]) -> None:
    groups = sentence_embedder.together(dict(enumerate(lengths)))
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        own = [lengths[row] for row in group]
        assert len(own) <= sentence_embedder.MOST_TOGETHER
        assert max(own) <= sentence_embedder.MOST_LONGER * min(own)


@pytest.mark.spec("SKILL-23")
def test_a_missing_or_altered_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_embedder, "TOKENIZER", ("no_such_package_here", "x", ""))
    assert not installed()
    with pytest.raises(ConfigError, match=r"knackbox\[sentences\]"):
        SentenceEmbedder()
    monkeypatch.setattr(sentence_embedder, "TOKENIZER", ("wordllama", "__init__.py", "0" * 64))
    with pytest.raises(ConfigError, match="not the expected sentence encoder"):
        SentenceEmbedder()
