"""`HybridIndex`: finds documents by their words (BM25), by their meaning (vectors), and by their exact name.

Words and vectors select candidates. Their order also depends on how well each matches the request word by word
(`WordMatch`). A document has one vector for its description and one for each example request. The id of a vector
contains a hash of the embedded text and the model, so comparing ids shows which vectors are missing or stale.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.retrieval.background import Background, Usual
from engine.retrieval.bm25 import Bm25
from engine.retrieval.clauses import clauses_of
from engine.retrieval.document import Document
from engine.retrieval.fusion import DENSE_WEIGHT
from engine.retrieval.naming import folded, names_in
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.ranking import ClauseFigures, Figures, ordered, ranking, rarest_of, selected
from engine.retrieval.terms import Terms, encodable
from engine.retrieval.word_match import WordMatch
from engine.stores.embedder import Embedder, Vectors
from engine.stores.vectors import VectorIndex

CANDIDATES = 100  # documents taken from each ranking (words, vectors), and kept after the two are fused
PER_RESULT = 2  # candidates per requested result, if this gives more than CANDIDATES
MAX_VECTORS_PER_CANDIDATE = 4  # a document may have several near vectors, so more vectors are requested
BATCH = 1_000  # vectors computed and written at a time; if the process is killed, at most this many are lost
HASH_CHARACTERS = 16

Progress = Callable[[int, int], None]  # called with the number of vectors computed so far and the total number


@dataclass(frozen=True, slots=True)
class VectorReconciliation:
    """How many vectors `load` added to the collection and removed from it."""

    added: int
    removed: int


class HybridIndex:
    """A searchable set of documents. Thread-safe.

    `load` indexes the words in memory. The vectors are in `collection`, which other processes may change as well: if
    another process or a repair removes a vector of this index, the next search adds it again.
    """

    def __init__(self, collection: VectorIndex, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """Create an index.

        Args:
            dense_weight: Weight of vectors in selecting candidates, from 0 (words only) to 1.
        """
        self._collection = collection
        self._embedder = embedder
        self._dense_weight = dense_weight
        self._lock = threading.RLock()
        self._terms = Terms()
        self._bm25 = Bm25(self._terms)
        self._match = WordMatch(embedder, self._terms)
        self._documents: dict[str, Document] = {}
        self._names: dict[str, set[str]] = {}  # folded name -> document ids
        self._owner: dict[str, str] = {}  # vector id -> document id
        self._vectors: dict[str, dict[str, str]] = {}  # document id -> vector id -> what is embedded
        self._checked_revision: int | None = None
        self._background: Background | None = None
        self._usual: tuple[tuple[int, int], Usual] | None = None  # with the revision and number of vectors it is for

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    @property
    def made_by(self) -> str | None:
        """The name of the embedder that made the vectors of the collection; None until all of them exist."""
        return self._collection.made_by

    def load(self, documents: Iterable[Document], progress: Progress | None = None) -> VectorReconciliation:
        """Replace all documents. Unchanged documents cost nothing, so this may be called after every change.

        Missing vectors are computed, and vectors without a document are deleted. If the process is killed, the next
        load continues where this one stopped.

        Raises:
            ValueError: Two documents have the same id.
        """
        wanted: dict[str, Document] = {}
        for document in documents:
            if document.id in wanted:
                raise ValueError(f"Two documents have the id {document.id!r}.")
            wanted[document.id] = document
        with self._lock:
            for id_ in [id_ for id_ in self._documents if id_ not in wanted]:
                self._forget(id_)
            for document in wanted.values():
                if self._documents.get(document.id) != document:
                    self._remember(document)
            return self._reconcile(prune=True, progress=progress)

    def rebuild(self, documents: Iterable[Document], progress: Progress | None = None) -> VectorReconciliation:
        """Replace all documents as `load` does, and compute all vectors again, including existing ones."""
        with self._lock:
            self._collection.made_by = None
            self._collection.clear()
            return self.load(documents, progress)

    def upsert(self, document: Document) -> None:
        """Add a document, or replace the one with the same id."""
        with self._lock:
            stale = self._forget(document.id)
            self._remember(document)
            new = self._vectors[document.id]
            before = self._collection.revision
            missing = sorted(new.keys() - self._collection.ids(list(new)))
            if missing:
                self._collection.upsert(missing, self._embedder.embed([new[id_] for id_ in missing]))
            gone = sorted(stale - new.keys())
            if gone:
                self._collection.delete(gone)
            self._count_own_writes(before, bool(missing) + bool(gone))

    def remove(self, document_id: str) -> None:
        """Remove a document if it is in the index."""
        with self._lock:
            stale = self._forget(document_id)
            if stale:
                before = self._collection.revision
                self._collection.delete(sorted(stale))
                self._count_own_writes(before, 1)

    def search(self, query: str, k: int, weigh: Weigh | None = None) -> list[Ranked]:
        """Return the `k` best documents, best first.

        Documents that the query names rank first. The query may spell a name in another case, or with `-` for `_`.

        Args:
            query: The request.
            k: The number of results.
            weigh: Returns factors for the scores of the candidates, such as success rates.
        """
        query = encodable(query)
        with self._lock:
            if self._collection.revision != self._checked_revision:
                self._reconcile(prune=False)
            count = max(CANDIDATES, PER_RESULT * k)
            words = self._terms.with_words(query)
            weights = self._bm25.weights(list(words))
            rarest = rarest_of(weights)
            sparse = dict(self._bm25.scored({term: weights[term] for term in rarest}, count))
            vector = self._embedder.embed([query])[0]
            dense = self._nearest(vector, count)
            named = self._named_in(query)
            ids = ordered(selected(sparse, dense, count, self._dense_weight), named, count)
            matched = self._match.match({term: words[term] for term in rarest}, weights, ids)
            request = sum(weights[term] for term in rarest)
            background = self._background = self._background or Background(self._embedder)
            chat, usual = background.resemblance(vector), self._usual_cosines(background)
            clauses = self._clauses(query, {term: weights[term] for term in rarest}, ids)
        farthest = min(dense.values(), default=0.0)
        figures = Figures(
            ids, sparse, dense, named, matched, len(words), request, chat, usual, clauses, farthest=farthest
        )
        return ranking(figures, k, weigh)

    def _clauses(self, query: str, weights: Mapping[str, float], ids: Sequence[str]) -> list[ClauseFigures]:
        """Compare each clause of a request with the candidates.

        Args:
            weights: The weights of the request's terms.
        """
        texts = clauses_of(query, self._terms)
        figures: list[ClauseFigures] = []
        for text, vector in zip(texts, self._embedder.embed(texts), strict=True):
            terms = self._terms.with_words(text)
            words = {term: word for term, word in terms.items() if term in weights}
            of_clause = {term: weights[term] for term in words}
            sparse = dict(self._bm25.scored(of_clause, len(self._documents)))
            dense = self._nearest(vector, len(ids))
            farthest = min(dense.values(), default=0.0)
            bm25 = np.array([sparse.get(id_, 0.0) for id_ in ids], dtype=np.float32)
            near = np.array([dense.get(id_, farthest) for id_ in ids], dtype=np.float32)
            figures.append(ClauseFigures(bm25, near, self._match.match(words, of_clause, ids), len(terms)))
        return figures

    def _named_in(self, query: str) -> dict[str, int]:
        """Return the documents named in the query, each with 2 for the exact spelling, or 1 for a similar one."""
        spelled = names_in(query)
        ids = {id_ for word in spelled for id_ in self._names.get(folded(word), ())}
        return {id_: 2 if self._documents[id_].called in spelled else 1 for id_ in ids}

    def _usual_cosines(self, background: Background) -> Usual:
        """Return how near lines of small talk usually are to their nearest vectors in this index."""
        state = (self._collection.revision, len(self._owner))
        if self._usual is None or self._usual[0] != state:
            best = [list(self._nearest(probe, 1).values()) for probe in background.probes]
            self._usual = state, Usual.of(np.array([each[0] for each in best if each], dtype=np.float32))
        return self._usual[1]

    def _nearest(self, vector: Vectors, count: int) -> dict[str, float]:
        """Return the nearest documents, each with the cosine similarity of its nearest vector."""
        if not self._documents or not vector.any():
            return {}
        per_document = min(MAX_VECTORS_PER_CANDIDATE, -(-len(self._owner) // len(self._documents)))
        best: dict[str, float] = {}
        for vector_id, similarity in self._collection.query(vector, count * per_document):
            owner = self._owner.get(vector_id)  # None if the vector is stale or its document is not loaded yet
            if owner is not None and len(best) < count:
                best.setdefault(owner, similarity)
        return best

    def _remember(self, document: Document) -> None:
        self._forget(document.id)
        self._documents[document.id] = document
        self._names.setdefault(folded(document.called), set()).add(document.id)
        self._bm25.add(document.id, document.fields)
        self._match.add(document.id, document.head, document.rest)
        self._vectors[document.id] = vectors = {self._vector_id(document.id, text): text for text in document.embedded}
        self._owner.update(dict.fromkeys(vectors, document.id))

    def _forget(self, document_id: str) -> set[str]:
        """Remove a document from memory, and return the ids of its vectors."""
        document = self._documents.pop(document_id, None)
        if document is None:
            return set()
        of_name = self._names[folded(document.called)]
        of_name.discard(document_id)
        if not of_name:
            del self._names[folded(document.called)]
        self._bm25.remove(document_id)
        self._match.remove(document_id)
        vectors = self._vectors.pop(document_id)
        for vector_id in vectors:
            del self._owner[vector_id]
        return set(vectors)

    def _reconcile(self, *, prune: bool, progress: Progress | None = None) -> VectorReconciliation:
        """Add missing vectors to the collection. With `prune`, also delete vectors that have no document."""
        before = self._collection.revision
        present = self._collection.ids()
        missing = sorted(self._owner.keys() - present)
        writes = 0
        if len(missing) > BATCH or (missing and self._collection.made_by != self._embedder.name):
            self._collection.made_by = None  # if the process is killed, the collection must not seem complete
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            texts = [self._vectors[self._owner[id_]][id_] for id_ in batch]
            self._collection.upsert(batch, self._embedder.embed(texts))
            writes += 1
            if progress is not None:
                progress(start + len(batch), len(missing))
        stale = sorted(present - self._owner.keys()) if prune else []
        if stale:
            self._collection.delete(stale)
        if self._collection.made_by != self._embedder.name:
            self._collection.made_by = self._embedder.name
        self._checked_revision = before  # the revision on which the comparison was based
        self._count_own_writes(before, writes + bool(stale))
        return VectorReconciliation(len(missing), len(stale))

    def _count_own_writes(self, before: int, writes: int) -> None:
        """Mark the index's own writes as checked. If other processes wrote, too, the next search reconciles again."""
        if self._checked_revision == before and self._collection.revision == before + writes:
            self._checked_revision = before + writes
        else:
            self._checked_revision = None

    def _vector_id(self, document_id: str, text: str) -> str:
        content = hashlib.sha256(f"{self._embedder.name}\0{text}".encode()).hexdigest()
        return f"{document_id}#{content[:HASH_CHARACTERS]}"
