"""`HybridIndex`: documents found by their words (BM25), by their meaning (vectors), and by their exact name.

Words and vectors bring up candidates; how well the request and each of these match word by word then decides with them
(`WordMatch`). A document has one vector for what it is and one for each example request. A vector's id holds a hash of
what was embedded and by which model, so comparing ids is all it takes to know which are missing, stale or left over.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Document
from engine.retrieval.fusion import DENSE_WEIGHT
from engine.retrieval.naming import folded, names_in
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.ranking import Figures, candidates, ranking, rarest_of
from engine.retrieval.terms import Terms
from engine.retrieval.word_match import WordMatch
from engine.stores.embedder import Embedder
from engine.stores.vectors import VectorIndex

CANDIDATES = 100  # taken from each side before they are fused, and of the fused matched word by word
PER_RESULT = 2  # candidates for each result asked for, when that is more
MAX_VECTORS_PER_CANDIDATE = 4  # several vectors of one document count once, so more of them are asked for
BATCH = 1_000  # vectors made and written at a time; what a kill leaves undone is at most so many
HASH_CHARACTERS = 16

Progress = Callable[[int, int], None]  # how many of how many vectors


@dataclass(frozen=True, slots=True)
class VectorReconciliation:
    """What `load` had to do, in vectors: how many were missing and how many left over."""

    added: int
    removed: int


class HybridIndex:
    """A searchable set of documents; threads may share it.

    The words are kept in memory and come from `load`; the vectors are kept by `collection`, which other processes may
    write too. When one of them, or a repair, took away a vector that belongs here, the next search puts it back.
    """

    def __init__(self, collection: VectorIndex, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """dense_weight: share of the meaning in the choice of candidates, from 0 (words only) to 1."""
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

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    @property
    def made_by(self) -> str | None:
        """The embedder whose vectors the collection wholly holds; None while they are being made."""
        return self._collection.made_by

    def load(self, documents: Iterable[Document], progress: Progress | None = None) -> VectorReconciliation:
        """Make these the documents. What did not change costs nothing, so it may be called after every change.

        Vectors that are missing are made, vectors of nobody's are deleted. Killed half-way, the next load goes on from
        there; nothing is searched before it is whole. Raises ValueError for an id given twice.
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
                    self._note(document)
            return self._reconcile(prune=True, progress=progress)

    def rebuild(self, documents: Iterable[Document], progress: Progress | None = None) -> VectorReconciliation:
        """As `load`, but make every vector anew, also those that seem to be there."""
        with self._lock:
            self._collection.made_by = None
            self._collection.clear()
            return self.load(documents, progress)

    def upsert(self, document: Document) -> None:
        """Add a document, or replace the one of its id."""
        with self._lock:
            stale = self._forget(document.id)
            self._note(document)
            new = self._vectors[document.id]
            before = self._collection.revision
            missing = sorted(new.keys() - self._collection.ids(list(new)))
            if missing:
                self._collection.upsert(missing, self._embedder.embed([new[id_] for id_ in missing]))
            gone = sorted(stale - new.keys())
            if gone:
                self._collection.delete(gone)
            self._wrote(before, bool(missing) + bool(gone))

    def remove(self, document_id: str) -> None:
        """Take a document out; one that is not there is fine."""
        with self._lock:
            stale = self._forget(document_id)
            if stale:
                before = self._collection.revision
                self._collection.delete(sorted(stale))
                self._wrote(before, 1)

    def search(self, query: str, k: int, weigh: Weigh | None = None) -> list[Ranked]:
        """The k best documents, best first.

        A query that contains a document's exact name (in any case, `-` for `_`) ranks it first. weigh: asked for the
        factors of the candidates' scores, such as success rates.
        """
        with self._lock:
            if self._collection.revision != self._checked_revision:
                self._reconcile(prune=False)
            count = max(CANDIDATES, PER_RESULT * k)
            words = self._terms.with_words(query)
            counted = self._bm25.weights(list(words))
            rarest = rarest_of(counted)
            sparse = dict(self._bm25.scored({term: counted[term] for term in rarest}, count))
            dense = self._nearest(query, count)
            named = self._named_in(query)
            ids = candidates(sparse, dense, named, count, self._dense_weight)
            matched = self._match.match({term: words[term] for term in rarest}, counted, ids)
        return ranking(Figures(ids, sparse, dense, named, matched), k, weigh)

    def _named_in(self, query: str) -> dict[str, int]:
        """The documents whose names the query contains: 2 for one that is spelled exactly so, else 1."""
        spelled = names_in(query)
        ids = {id_ for word in spelled for id_ in self._names.get(folded(word), ())}
        return {id_: 2 if self._documents[id_].called in spelled else 1 for id_ in ids}

    def _nearest(self, query: str, count: int) -> dict[str, float]:
        """Cosine similarity by document id, of its nearest vector."""
        vector = self._embedder.embed([query])[0]
        if not self._documents or not vector.any():
            return {}
        per_document = min(MAX_VECTORS_PER_CANDIDATE, -(-len(self._owner) // len(self._documents)))
        best: dict[str, float] = {}
        for vector_id, similarity in self._collection.query(vector, count * per_document):
            owner = self._owner.get(vector_id)  # None: left over, or of a document this process does not know yet
            if owner is not None and len(best) < count:
                best.setdefault(owner, similarity)
        return best

    def _note(self, document: Document) -> None:
        self._forget(document.id)
        self._documents[document.id] = document
        self._names.setdefault(folded(document.called), set()).add(document.id)
        self._bm25.add(document.id, document.fields)
        self._match.add(document.id, document.head, document.rest)
        self._vectors[document.id] = vectors = {self._vector_id(document.id, text): text for text in document.embedded}
        self._owner.update(dict.fromkeys(vectors, document.id))

    def _forget(self, document_id: str) -> set[str]:
        """Drop what is known of a document; returns the ids of its vectors."""
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
        """Make the collection hold what belongs here; with `prune`, nothing else."""
        before = self._collection.revision
        present = self._collection.ids()
        missing = sorted(self._owner.keys() - present)
        writes = 0
        if len(missing) > BATCH or (missing and self._collection.made_by != self._embedder.name):
            self._collection.made_by = None  # a part is not the whole, whoever asks after a kill
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            texts = [self._vectors[self._owner[id_]][id_] for id_ in batch]
            self._collection.upsert(batch, self._embedder.embed(texts))
            writes += 1
            if progress is not None:
                progress(start + len(batch), len(missing))
        left_over = sorted(present - self._owner.keys()) if prune else []
        if left_over:
            self._collection.delete(left_over)
        if self._collection.made_by != self._embedder.name:
            self._collection.made_by = self._embedder.name
        self._checked_revision = before  # what was looked at
        self._wrote(before, writes + bool(left_over))
        return VectorReconciliation(len(missing), len(left_over))

    def _wrote(self, before: int, writes: int) -> None:
        """Count our own writes as seen; if anybody else wrote meanwhile, the next search looks again."""
        if self._checked_revision == before and self._collection.revision == before + writes:
            self._checked_revision = before + writes
        else:
            self._checked_revision = None

    def _vector_id(self, document_id: str, text: str) -> str:
        content = hashlib.sha256(f"{self._embedder.name}\0{text}".encode()).hexdigest()
        return f"{document_id}#{content[:HASH_CHARACTERS]}"
