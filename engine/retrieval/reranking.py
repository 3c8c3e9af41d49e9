"""`SentenceReranker`: reorders the best results of a search by the similarity of whole sentences.

A transformer takes about 10 ms for each text, too long to search all documents with it. It only compares the request
with the texts of the best results, whose vectors are computed in a background thread and kept. Until the model is
loaded, results stay as they are. A result whose texts have no vectors yet is not compared, and keeps the score that
it has relative to the best result.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.contract.failure import ConfigError
from engine.retrieval.clauses import clauses_of
from engine.retrieval.fusion import Floats
from engine.retrieval.ranked import Ranked
from engine.retrieval.terms import Terms, encodable
from engine.stores.embedder import Embedder, Vectors
from engine.stores.vector_cache import VectorCache

RERANKED = 50  # this many of the best results are compared with the request
# The weight of the comparison depends on the number of terms in the request: a short request has few words to match.
SHORT, LONG = 6, 16
MOST_WEIGHT, LEAST_WEIGHT = 0.65, 0.2
MOST_CHARACTERS = 200  # characters of a request or clause that are compared; longer texts take more time
MOST_COMPARED = 5  # clauses of a request that are compared
CLAUSES = 0.6  # weight of the clause that a result matches best; the whole request has the remaining weight
SOFTNESS = 0.05  # a text counts 1/e as much if its cosine is lower by this much

log = logging.getLogger(__name__)


class SentenceReranker:
    """Reranks the results of searches. Thread-safe. Call `close` once."""

    def __init__(self, load: Callable[[], Embedder], cache: VectorCache) -> None:
        """Create a reranker. The model is not loaded yet.

        Args:
            load: Loads the model; called once, in a thread.
            cache: Stores the vectors of documents.
        """
        self._load = load
        self._cache = cache
        self._lock = threading.Condition()
        self._wanted: dict[str, None] = {}
        self._embedder: Embedder | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._terms = Terms()

    @property
    def depth(self) -> int:
        """The number of results of a search that should be passed to `rerank`."""
        return RERANKED

    def rerank(
        self,
        query: str,
        results: Sequence[Ranked],
        texts: Mapping[str, Sequence[str]],
        factors: Mapping[str, float],
    ) -> list[Ranked]:
        """Return the results in their new order. Results whose name is in the request stay first.

        Args:
            query: The request.
            results: Results of a search, best first.
            texts: The texts of each result by id.
            factors: Factors by which the scores of the results were multiplied, such as success rates; 1 if missing.
        """
        query = encodable(query)
        others = [one for one in results if not one.named]
        embedder = self._ready()
        known = self._cache.get(text for one in others for text in texts.get(one.id, ()))
        self._want([text for one in others for text in texts.get(one.id, ()) if text not in known])
        if embedder is None or not others:
            return list(results)
        with self._lock:
            weight, parts = _weight(len(self._terms.with_words(query))), clauses_of(query, self._terms)
            weights = [_weight(len(self._terms.with_words(part))) for part in parts]
        vectors = embedder.embed([part[:MOST_CHARACTERS] for part in parts[:MOST_COMPARED] or [query]])
        whole = vectors.mean(axis=0, keepdims=True)  # the mean over the clauses is close to the whole request's vector
        relative = _relative(np.concatenate([whole, vectors]) if parts else whole, others, texts, known)
        best = max((one.score for one in others), default=0.0) or 1.0
        scores = np.array([one.score / best for one in others], dtype=np.float32)
        of_factors = np.array([factors.get(one.id, 1.0) for one in others], dtype=np.float32)
        mixed = (1 - weight) * scores + weight * relative[0] * of_factors
        if parts:
            mixed = (1 - CLAUSES) * mixed + CLAUSES * of_factors * _of_clauses(others, relative[1:], weights)
        scored = [
            replace(one, score=float(score)) if meant >= 0 else replace(one, score=one.score / best)
            for one, score, meant in zip(others, mixed.tolist(), relative[0].tolist(), strict=True)
        ]
        return [*(one for one in results if one.named), *sorted(scored, key=lambda one: (-one.score, one.id))]

    def wait(self, deadline_s: float) -> bool:
        """Wait until the model is loaded and all requested vectors exist. Return False if that takes too long."""
        with self._lock:
            return self._lock.wait_for(lambda: self._embedder is not None and not self._wanted, deadline_s)

    def close(self) -> None:
        """Stop the background thread, and close the cache."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._cache.close()

    def _ready(self) -> Embedder | None:
        """Return the model if it is loaded. The first call starts to load it."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="knackbox-sentences", daemon=True)
                self._thread.start()
            return self._embedder

    def _want(self, texts: Sequence[str]) -> None:
        with self._lock:
            if not self._closed:
                self._wanted.update(dict.fromkeys(texts))
                self._lock.notify_all()

    def _work(self) -> None:
        """Load the model, then compute the vectors of the texts that searches asked for."""
        try:
            embedder = self._load()
        except ConfigError as error:
            log.warning("The sentence encoder cannot be loaded, so searches work without it: %s", error)
            with self._lock:
                self._closed = True  # so that no more texts are collected
                self._wanted.clear()
            return
        with self._lock:
            self._embedder = embedder
            self._lock.notify_all()
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed or self._wanted)
                if self._closed:
                    return
                text = next(iter(self._wanted))
            self._cache.put({text: embedder.embed([text])[0]})
            with self._lock:
                self._wanted.pop(text, None)
                self._lock.notify_all()


def _weight(terms: int) -> float:
    """Return the weight of the comparison of sentences for a request with this number of terms."""
    return float(np.interp(terms, (SHORT, LONG), (MOST_WEIGHT, LEAST_WEIGHT)))


def _relative(
    vectors: Vectors, results: Sequence[Ranked], texts: Mapping[str, Sequence[str]], known: Mapping[str, Vectors]
) -> Floats:
    """Return the similarity of each result (column) divided by that of the best result; -1 for one without vectors.

    All texts of a result count, but texts much farther from the request than the result's nearest text count little.

    Args:
        vectors: One vector for each row: the vector of the whole request, then those of its clauses.
    """
    similarity = np.full((len(vectors), len(results)), -1.0, dtype=np.float32)
    for at, one in enumerate(results):
        own = [known[text] for text in texts.get(one.id, ()) if text in known]
        if own:
            cosines = vectors @ np.stack(own).T
            nearest = cosines.max(axis=1, keepdims=True)
            others = np.exp((cosines - nearest) / SOFTNESS).sum(axis=1) / len(own) ** 0.5
            similarity[:, at] = np.maximum(nearest[:, 0] + SOFTNESS * np.log(others), 0)
    best = similarity.max(axis=1, keepdims=True)
    relative: Floats = np.where(similarity >= 0, similarity / np.where(best > 0, best, 1), -1)
    return relative


def _of_clauses(results: Sequence[Ranked], relative: Floats, weights: Sequence[float]) -> Floats:
    """Return the score of each result for the clause that it matches best, by words and sentences.

    Args:
        relative: The result of `_relative` for the first clauses. Further clauses count by words only.
        weights: The weight of the comparison of sentences for each clause.
    """
    words = np.zeros((len(weights), len(results)), dtype=np.float32)
    for at, one in enumerate(results):
        if len(one.clauses) == len(weights):
            words[:, at] = one.clauses
    shares = np.array(weights[: len(relative)], dtype=np.float32)[:, np.newaxis]
    words[: len(relative)] = (1 - shares) * words[: len(relative)] + shares * relative
    found: Floats = words.max(axis=0)
    return found
