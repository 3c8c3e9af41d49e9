"""The methods of retrieval that are compared: each alone (words, meaning), fused by rank, and ours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import finalize

import numpy as np

from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Document
from engine.retrieval.memory import MemoryVectors
from engine.retrieval.reranking import SentenceReranker
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import Embedder, Vectors
from engine.stores.vector_cache import VectorCache

DEEPEST = 60  # results of one search
_LOADING_S = 600.0
_AT_ONCE = 2_000  # documents written to an index at a time
RRF = 60  # the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a search.

    Attributes:
        confidence: How certain the method is that this document answers the request; comparable between requests.
    """

    id: str
    confidence: float


Search = Callable[[str], list[Found]]
Method = Callable[[Sequence[Document]], Search]


class CachedEmbedder:
    """An embedder that computes the vector of each text once, so that many indexes of the same texts are quick."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        rows = [self._known[text] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), np.float32)


class _Computed(VectorCache):
    """Vectors that are computed when they are needed, instead of later in the background."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(Path("unused"), embedder.name)
        self._embedder = embedder

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        wanted = list(texts)
        return dict(zip(wanted, self._embedder.embed(wanted), strict=True))

    def put(self, vectors: Mapping[str, Vectors]) -> None:
        """Do nothing."""


def methods(embedder: Embedder, sentences: Embedder | None = None) -> dict[str, Method]:
    """Return all methods by name. The first one is the base of the ratios.

    Args:
        sentences: The sentence encoder, if the methods that use it are to be included.
    """
    found: dict[str, Method] = {
        "words (BM25F)": by_words,
        "meaning (WordLlama)": lambda documents: by_meaning(documents, embedder),
        "RRF(60) of both": lambda documents: by_rank([by_words(documents), by_meaning(documents, embedder)]),
        "ours": lambda documents: ours(documents, embedder),
    }
    if sentences is not None:
        found["sentences (MiniLM)"] = lambda documents: by_sentences(documents, sentences)
        found["ours + sentences"] = lambda documents: reranked(documents, embedder, sentences)
    return found


def by_words(documents: Sequence[Document]) -> Search:
    """Search by BM25F alone. The confidence is the score."""
    words = Bm25()
    for each in documents:
        words.add(each.id, each.fields)
    return lambda text: [Found(id_, score) for id_, score in words.search(text, DEEPEST)]


def by_meaning(documents: Sequence[Document], embedder: Embedder) -> Search:
    """Search by vectors alone. The confidence is the cosine of the nearest vector of a document."""
    return _nearest({each.id: each.embedded for each in documents}, embedder)


def by_sentences(documents: Sequence[Document], sentences: Embedder) -> Search:
    """Search by vectors of the sentence encoder alone, as `by_meaning` does."""
    return _nearest({each.id: each.sentences for each in documents}, sentences)


def _nearest(texts: Mapping[str, Sequence[str]], embedder: Embedder) -> Search:
    vectors = MemoryVectors(embedder.dimensions)
    owners: dict[str, str] = {}
    most = 1
    for id_, each in texts.items():
        names = [f"{id_}#{at}" for at in range(len(each))]
        owners.update(dict.fromkeys(names, id_))
        vectors.upsert(names, embedder.embed(each))
        most = max(most, len(names))

    def search(text: str) -> list[Found]:
        best: dict[str, float] = {}
        for name, similarity in vectors.query(embedder.embed([text])[0], DEEPEST * most):
            best.setdefault(owners[name], similarity)
        return [Found(id_, similarity) for id_, similarity in best.items()][:DEEPEST]

    return search


def by_rank(searches: Sequence[Search]) -> Search:
    """Combine searches by reciprocal rank fusion. The confidence is the score."""

    def search(text: str) -> list[Found]:
        scores: dict[str, float] = {}
        for each in searches:
            for place, found in enumerate(each(text), 1):
                scores[found.id] = scores.get(found.id, 0.0) + 1 / (RRF + place)
        return [Found(id_, scores[id_]) for id_ in sorted(scores, key=lambda id_: (-scores[id_], id_))]

    return search


def ours(documents: Sequence[Document], embedder: Embedder) -> Search:
    """Search as the engine does, after training with the known requests. The confidence is `Ranked.fit`."""
    index = _trained(documents, embedder)
    return lambda text: [Found(one.id, one.fit) for one in index.search(text, DEEPEST)]


def reranked(documents: Sequence[Document], embedder: Embedder, sentences: Embedder) -> Search:
    """Search as the engine does with the sentence encoder. The confidence is `Ranked.fit`."""
    index = _trained(documents, embedder)
    texts = {each.id: each.sentences for each in documents}
    reranker = SentenceReranker(lambda: sentences, _Computed(sentences))
    reranker.rerank("", [], {}, {})
    reranker.wait(_LOADING_S)

    def search(text: str) -> list[Found]:
        results = index.search(text, reranker.depth)
        return [Found(one.id, one.fit) for one in reranker.rerank(text, results, texts, {})]

    return search


def _trained(documents: Sequence[Document], embedder: Embedder) -> StoredIndex:
    """Return an index in a temporary file, which is deleted together with the index."""
    folder = TemporaryDirectory(prefix="knackbox-bench-")
    index = StoredIndex(Path(folder.name) / "index.db", embedder)
    finalize(index, folder.cleanup)
    for start in range(0, len(documents), _AT_ONCE):
        index.apply({each.id: each for each in documents[start : start + _AT_ONCE]}, {})
    if any(each.examples for each in documents):
        index.train()
    return index
