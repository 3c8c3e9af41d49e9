"""`HybridIndex`: documents found by their words (BM25), by their meaning (vectors), and by their exact name.

A document has one vector for its text and one for each example request. A vector's id holds a hash of what was
embedded and by which model, so comparing ids is all it takes to know which vectors are missing, stale or left over.
"""

import hashlib
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.retrieval.bm25 import Bm25
from engine.retrieval.fusion import DENSE_WEIGHT, fuse
from engine.stores.embedder import Embedder
from engine.stores.vectors import VectorIndex

CANDIDATES = 50  # taken from each side before they are fused; more changed recall at 10 by less than .01 on BFCL
PER_RESULT = 5  # candidates for each result asked for, when that is more
MAX_VECTORS_PER_CANDIDATE = 4  # several vectors of one document count once, so more of them are asked for
HASH_CHARACTERS = 16
NAME = re.compile(r"[\w.-]*\w")


@dataclass(frozen=True, slots=True)
class Document:
    """Something to find.

    id: also its exact name. text: what it is; naming its parameters with their descriptions as well took BM25's recall
    at 5 on BFCL from .66 to .73. examples: requests that it answers, each with a vector of its own.
    """

    id: str
    text: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """One result.

    score: 0 to 1 relative to this query's best, times the document's weight; 1 more when the query names it.
    similarity: cosine of the query with its nearest vector, 0 when it was not among the nearest.
    bm25: 0 when no word matched. These two are comparable from query to query.
    """

    id: str
    score: float
    similarity: float = 0.0
    bm25: float = 0.0


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What `load` had to do, in vectors: how many were missing and how many left over."""

    added: int
    removed: int


class HybridIndex:
    """A searchable set of documents; threads may share it.

    The words are kept in memory and come from `load`; the vectors are kept by `collection`, which other processes may
    write too. When one of them, or a repair, took away a vector that belongs here, the next search puts it back.
    """

    def __init__(self, collection: VectorIndex, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """dense_weight: share of the meaning in a score, from 0 (words only) to 1."""
        self._collection = collection
        self._embedder = embedder
        self._dense_weight = dense_weight
        self._lock = threading.RLock()
        self._bm25 = Bm25()
        self._documents: dict[str, Document] = {}
        self._names: dict[str, str] = {}
        self._owner: dict[str, str] = {}  # vector id -> document id
        self._vectors: dict[str, dict[str, str]] = {}  # document id -> vector id -> what is embedded
        self._checked_revision: int | None = None

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    def load(self, documents: Iterable[Document]) -> Reconciled:
        """Make these the documents. What did not change costs nothing, so it may be called after every change.

        Vectors that are missing are made, vectors of nobody's are deleted. Raises ValueError for an id given twice.
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
            return self._reconcile(prune=True)

    def rebuild(self, documents: Iterable[Document]) -> Reconciled:
        """As `load`, but make every vector anew, also those that seem to be there."""
        with self._lock:
            self._collection.clear()
            return self.load(documents)

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

    def search(self, query: str, k: int, weights: Mapping[str, float] | None = None) -> list[Ranked]:
        """The k best documents, best first.

        A query that contains a document's exact id (in any case, `-` for `_`) ranks it first. weights: factors from 0
        to 1 by document id, such as a success rate; 1 where none is given.
        """
        with self._lock:
            if self._collection.revision != self._checked_revision:
                self._reconcile(prune=False)
            count = max(CANDIDATES, PER_RESULT * k)
            sparse = dict(self._bm25.search(query, count))
            dense = self._nearest(query, count)
            named = {id_ for id_ in map(self._names.get, _names_in(query)) if id_ is not None}
        scores = fuse(sparse, dense, self._dense_weight)
        factors = weights or {}
        ranked = [
            Ranked(
                id_,
                scores.get(id_, 0.0) * factors.get(id_, 1.0) + (id_ in named),
                similarity=dense.get(id_, 0.0),
                bm25=sparse.get(id_, 0.0),
            )
            for id_ in scores.keys() | named
        ]
        return sorted(ranked, key=lambda found: (-found.score, found.id))[:k]

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
        self._names[_folded(document.id)] = document.id
        self._bm25.add(document.id, " ".join([document.id, document.text, *document.examples]))
        texts = [f"{document.id.replace('_', ' ')}: {document.text}", *document.examples]
        self._vectors[document.id] = vectors = {self._vector_id(document.id, text): text for text in texts}
        self._owner.update(dict.fromkeys(vectors, document.id))

    def _forget(self, document_id: str) -> set[str]:
        """Drop what is known of a document; returns the ids of its vectors."""
        if self._documents.pop(document_id, None) is None:
            return set()
        self._names.pop(_folded(document_id), None)
        self._bm25.remove(document_id)
        vectors = self._vectors.pop(document_id)
        for vector_id in vectors:
            del self._owner[vector_id]
        return set(vectors)

    def _reconcile(self, *, prune: bool) -> Reconciled:
        before = self._collection.revision
        present = self._collection.ids()
        missing = sorted(self._owner.keys() - present)
        if missing:
            texts = [self._vectors[self._owner[id_]][id_] for id_ in missing]
            self._collection.upsert(missing, self._embedder.embed(texts))
        left_over = sorted(present - self._owner.keys()) if prune else []
        if left_over:
            self._collection.delete(left_over)
        self._checked_revision = before  # what was looked at
        self._wrote(before, bool(missing) + bool(left_over))
        return Reconciled(len(missing), len(left_over))

    def _wrote(self, before: int, writes: int) -> None:
        """Count our own writes as seen; if anybody else wrote meanwhile, the next search looks again."""
        if self._checked_revision == before and self._collection.revision == before + writes:
            self._checked_revision = before + writes
        else:
            self._checked_revision = None

    def _vector_id(self, document_id: str, text: str) -> str:
        content = hashlib.sha256(f"{self._embedder.name}\0{text}".encode()).hexdigest()
        return f"{document_id}#{content[:HASH_CHARACTERS]}"


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _names_in(query: str) -> list[str]:
    return [_folded(word) for word in NAME.findall(query)]
