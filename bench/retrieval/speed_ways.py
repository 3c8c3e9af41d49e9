"""The methods whose speed and memory are measured, over documents that may be many."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.retrieval.methods import RRF
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Document
from engine.retrieval.ranked import Ranked
from engine.retrieval.reranking import SentenceReranker
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import Embedder, Vectors
from engine.stores.vector_cache import VectorCache

WAYS = (
    "words (BM25F)",
    "meaning (WordLlama)",
    "RRF(60) of both",
    "ours",
    "sentences (MiniLM)",
    "ours + sentences",
)
SENTENCES = WAYS[4:]  # those that need the sentence encoder
RETRIEVED = 8
_FUSED = 100  # results of each search that rank fusion combines
_LOADING_S = 60.0


def opened(
    way: str,
    documents: Sequence[Document],
    path: Path,
    embedder: Callable[[], Embedder],
    sentences: Callable[[], Embedder],
) -> Callable[[str], object]:
    """Return a search by one method.

    Args:
        way: One of `WAYS`.
        documents: The documents.
        path: A stored index of these documents.
        embedder: Returns what makes the vectors of words. Called only by methods that use it.
        sentences: Returns the sentence encoder. Called only for `SENTENCES`.
    """
    match way:
        case "words (BM25F)":
            words = _words(documents)
            return lambda text: words.search(text, RETRIEVED)
        case "meaning (WordLlama)":
            meaning = _Nearest(documents, embedder())
            return lambda text: meaning.search(text, RETRIEVED)
        case "RRF(60) of both":
            words, meaning = _words(documents), _Nearest(documents, embedder())
            return lambda text: _by_rank(words.search(text, _FUSED), meaning.search(text, _FUSED))
        case "ours":
            index = StoredIndex(path, embedder())
            return lambda text: index.search(text, RETRIEVED)
        case "sentences (MiniLM)":
            encoded = _Nearest(documents, sentences())
            return lambda text: encoded.search(text, RETRIEVED)
    return _reranked(StoredIndex(path, embedder()), sentences(), documents)


def _words(documents: Sequence[Document]) -> Bm25:
    words = Bm25()
    for each in documents:
        words.add(each.id, each.fields)
    return words


class _Nearest:
    """Exact search by vectors. Those of the documents are random, since computing them is not part of a search."""

    def __init__(self, documents: Sequence[Document], embedder: Embedder) -> None:
        self._ids = [each.id for each in documents]
        made = np.random.default_rng(7).normal(size=(len(documents), embedder.dimensions)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        self._vectors, self._embedder = made, embedder

    def search(self, text: str, count: int) -> list[tuple[str, float]]:
        similarity = self._vectors @ self._embedder.embed([text])[0]
        best = np.argpartition(-similarity, min(count, len(similarity)) - 1)[:count]
        return [(self._ids[at], float(similarity[at])) for at in sorted(best, key=lambda at: -similarity[at])]


def _by_rank(*found: Sequence[tuple[str, float]]) -> list[str]:
    scores: dict[str, float] = {}
    for each in found:
        for place, (id_, _) in enumerate(each, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (RRF + place)
    return sorted(scores, key=lambda id_: -scores[id_])[:RETRIEVED]


class _RandomVectors(VectorCache):
    """Returns random vectors for documents, because computing them is not part of a search."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(Path("unused"), "random")
        self._random = np.random.default_rng(7)
        self._made: dict[str, Vectors] = {}
        self._dimensions = dimensions

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        wanted = list(texts)
        for text in wanted:
            if text not in self._made:
                vector = self._random.normal(size=self._dimensions).astype(np.float32)
                self._made[text] = vector / np.linalg.norm(vector)
        return {text: self._made[text] for text in wanted}


def _reranked(index: StoredIndex, sentences: Embedder, documents: Sequence[Document]) -> Callable[[str], list[Ranked]]:
    texts = {each.id: each.sentences for each in documents}
    reranker = SentenceReranker(lambda: sentences, _RandomVectors(sentences.dimensions))
    reranker.rerank("", [], {}, {})
    reranker.wait(_LOADING_S)
    return lambda text: reranker.rerank(text, index.search(text, reranker.depth), texts, {})
