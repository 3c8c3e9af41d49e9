"""`StoredIndex`: searches like `HybridIndex`, but keeps its data in one file that all processes of a home share.

The file is an SQLite database, so changes are atomic and immediately visible to all processes. Postings and vectors are
blobs that numpy reads without conversion. A search reads the postings of its terms and the words of its candidates. It
compares the request with the first dimensions of every vector, and then with the nearest vectors in all dimensions.
Everything in the file can be rebuilt: a damaged file, or one made with another embedder, is replaced by an empty one.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from engine.retrieval.background import Background, Usual
from engine.retrieval.bm25 import rarity
from engine.retrieval.clauses import clauses_of
from engine.retrieval.document import Document
from engine.retrieval.fusion import DENSE_WEIGHT
from engine.retrieval.index import CANDIDATES, MAX_VECTORS_PER_CANDIDATE, PER_RESULT
from engine.retrieval.index_file import FREE, VECTOR_CHUNK, IndexFile, read_meta, select_in
from engine.retrieval.index_writer import IndexWriter
from engine.retrieval.naming import folded, names_in
from engine.retrieval.postings import best_of, bm25_scores, postings_of, terms_of
from engine.retrieval.ranked import Ranked, Weigh
from engine.retrieval.ranking import ClauseFigures, Figures, candidates, ranking, rarest_of
from engine.retrieval.stored_ranking import StoredRanking
from engine.retrieval.terms import Terms, weight_of
from engine.retrieval.word_cache import WordCache
from engine.retrieval.word_match import TINY, Matched, WordLists, compare, word_similarity
from engine.stores.embedder import Embedder, Vectors

# The nearest vectors are preselected by their first dimensions and then compared in all dimensions. The embedder was
# trained so that the first dimensions alone are an embedding (Matryoshka representation learning, arXiv:2205.13147).
# Reading a quarter of each vector takes a quarter of the time.
_FIRST = 64
_PRESELECTED = 2_000  # the fewest vectors to compare in all dimensions; in smaller indexes, all vectors are compared

_NO_COSINE = np.float32(-2.0)  # less than any cosine

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _QueryWord:
    """A word of a request: its weight, and the number of its term, or None if no document contains it."""

    word: str
    weight: float
    number: int | None


class StoredIndex:
    """A searchable set of documents in a file. Thread-safe. The file is opened at the first use; call `close` once."""

    def __init__(self, path: Path, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """Create an index.

        Args:
            dense_weight: Weight of vectors in selecting candidates, from 0 (words only) to 1.
        """
        self._file = IndexFile(path, f"{embedder.name}:{embedder.dimensions}")
        self._embedder = embedder
        self._dense_weight = dense_weight
        self._terms = Terms()
        self._writer = IndexWriter(embedder, self._terms)
        self._lock = threading.RLock()
        self._blas = ThreadpoolController()
        self._epoch = -1
        self._vectors = np.zeros((0, embedder.dimensions), dtype=np.float32)
        self._owners = np.zeros(0, dtype=np.uint32)
        self._first = np.zeros((0, min(_FIRST, embedder.dimensions)), dtype=np.float32)  # normalized
        self._learned = StoredRanking(self._terms)
        self._background: Background | None = None
        self._probed = np.zeros((0, 0), dtype=np.float32)  # for each chunk, the greatest cosine of each probe
        self._words = WordCache(embedder.dimensions)
        self._holders: dict[int, int] = {}  # term number -> how many documents contain it at this epoch

    def __len__(self) -> int:
        with self._reading() as connection:
            return _count(connection)

    def note(self, key: str) -> str:
        """Return the last note that `apply` stored under this key; "" if there is none."""
        with self._reading() as connection:
            return read_meta(connection, key)

    def apply(self, changes: Mapping[str, Document | None], notes: Mapping[str, str]) -> bool:
        """Add, replace and remove documents atomically.

        Args:
            changes: The new documents by id. None removes the document with that id.
            notes: Values for `note`, stored together with the changes.

        Returns:
            False if nothing was written, because another process is writing or the file was damaged and was replaced.
        """
        with self._lock:
            return self._file.write(lambda connection: self._writer.write(connection, changes, notes))

    def clear(self) -> None:
        """Remove all documents and notes."""
        with self._lock:
            self._file.replace()
            self._forget()

    def close(self) -> None:
        """Close the file. A later use opens it again."""
        with self._lock:
            self._file.close()
            self._forget()

    def search(self, query: str, k: int, weigh: Weigh | None = None) -> list[Ranked]:
        """Return the `k` best documents, best first.

        Documents whose exact name is in the query rank first; the spelling may differ in case, or have `-` for `_`.

        Args:
            query: The request.
            k: The number of results.
            weigh: Returns factors for the scores of the candidates, such as success rates.
        """
        # Use one BLAS thread, because these products take less time than synchronizing threads, especially under load.
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            documents = _count(connection)
            count = max(CANDIDATES, PER_RESULT * k)
            words = self._terms.with_words(query)
            numbers = terms_of(connection, list(words))
            weights = {
                term: float(rarity(documents, numbers[term][1] if term in numbers else 0)) * weight_of(term)
                for term in words
            }
            rarest = rarest_of(weights)
            known_weights = {numbers[term][0]: weights[term] for term in rarest if term in numbers}
            postings = postings_of(connection, known_weights)
            sparse = best_of(bm25_scores(postings, known_weights), count)
            vector = self._embedder.embed([query])[0]
            dense = self._nearest(connection, vector, count, documents)
            slots = _ids_of(connection, {*sparse, *dense})
            by_id = {id_: slot for slot, id_ in slots.items()}
            named, named_slots = _named_in(connection, query)
            by_id |= named_slots
            sparse_ids = {slots[slot]: score for slot, score in sparse.items() if slot in slots}
            dense_ids = {slots[slot]: score for slot, score in dense.items() if slot in slots}
            ids = candidates(sparse_ids, dense_ids, named, count, self._dense_weight)
            query_words = [_QueryWord(words[term], weights[term], numbers.get(term, (None,))[0]) for term in rarest]
            found = [by_id[id_] for id_ in ids]
            clauses = [(text, self._terms.with_words(text).keys()) for text in clauses_of(query, self._terms)]
            rows = [[at for at, term in enumerate(rarest) if term in terms] for _, terms in clauses]
            matched, *of_clauses = self._match(connection, query_words, found, documents, rows)
            near = self._near(connection, [text for text, _ in clauses], found)
            figures: list[ClauseFigures] = []
            for at, each in enumerate(of_clauses):
                chosen = (query_words[row] for row in rows[at])
                clause_weights = {word.number: word.weight for word in chosen if word.number is not None}
                scores = bm25_scores(postings, clause_weights)
                scores = np.pad(scores, (0, max(0, 1 + max(found, default=0) - len(scores))))
                figures.append(ClauseFigures(scores[found], near[at], each))
            self._learned.catch_up(connection)
            learned = self._learned.scores(connection, query, vector, found, self._vectors)
            weight = self._learned.model.weight if self._learned.model is not None else 0.0
            request = sum(weights[term] for term in rarest)
            chat, usual = self._opened_background().resemblance(vector), self._usual_cosines()
        return ranking(
            Figures(ids, sparse_ids, dense_ids, named, matched, request, chat, usual, figures, learned, weight),
            k,
            weigh,
        )

    def training_due(self) -> bool:
        """Return whether enough has changed since the last training for `train` to be worthwhile."""
        with self._reading() as connection:
            self._catch_up(connection)
            self._learned.catch_up(connection)
            return self._learned.due(int((self._owners != FREE).sum()))

    def train(self) -> bool:
        """Train the learned ranking if enough has changed since the last time.

        Returns:
            Whether a new version was stored. If the old model, or no model, ranks the newest requests better, the new
            version contains that instead.
        """
        if not self.training_due():
            return False
        with self._reading() as connection:
            self._catch_up(connection)
            self._learned.catch_up(connection)
            training = self._learned.training(connection, self._vectors, self._opened_background())
        with self._blas.limit(limits=1, user_api="blas"):
            row = training()  # without the lock, so that searches need not wait
        with self._lock:
            return self._file.write(lambda connection: self._learned.store(connection, row))

    def vectors_of(self, ids: Iterable[str]) -> tuple[list[str], Vectors]:
        """Return the names and vectors of these documents, for a vector store. A document has one or more vectors."""
        names: list[str] = []
        rows: list[int] = []
        with self._reading() as connection:
            self._catch_up(connection)
            for document_id in ids:
                query = "SELECT vectors, hashes FROM documents WHERE id = ?"
                found = connection.execute(query, (document_id,)).fetchone()
                if found is not None:
                    rows += np.frombuffer(found[0], dtype=np.uint32).tolist()
                    names += [f"{document_id}#{each}" for each in found[1].split()]
            return names, self._vectors[rows]

    def vector_names(self) -> dict[str, str]:
        """Return the names of all vectors, each with the id of its document."""
        with self._reading() as connection:
            rows = connection.execute("SELECT id, hashes FROM documents")
            return {f"{id_}#{each}": id_ for id_, hashes in rows for each in hashes.split()}

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._file.reading() as (connection, fresh):
            if fresh:
                self._forget()
            yield connection

    def _forget(self) -> None:
        """Discard everything read from the file."""
        self._epoch = -1
        self._vectors, self._owners, self._first = self._vectors[:0], self._owners[:0], self._first[:0]
        self._probed = self._probed[:0]
        self._learned.forget()
        self._words.clear()
        self._holders.clear()

    def _nearest(self, connection: sqlite3.Connection, vector: Vectors, count: int, documents: int) -> dict[int, float]:
        """Return the nearest documents by slot, each with the cosine similarity of its nearest vector."""
        self._catch_up(connection)
        used = int((self._owners != FREE).sum())
        if not documents or not used or not vector.any():
            return {}
        wanted = min(used, count * min(MAX_VECTORS_PER_CANDIDATE, -(-used // documents)))
        rows = self._preselect(vector, wanted)
        similarity = self._vectors[rows] @ vector
        owners = self._owners[rows]
        similarity[owners == FREE] = _NO_COSINE
        kth = np.partition(similarity, len(similarity) - wanted)[len(similarity) - wanted]
        near = np.flatnonzero(similarity >= kth)
        best: dict[int, float] = {}
        for at in near[np.argsort(-similarity[near], kind="stable")].tolist():
            if len(best) == count:
                break
            best.setdefault(int(owners[at]), float(similarity[at]))
        return best

    def _preselect(self, vector: Vectors, wanted: int) -> Any:
        """Return the rows of the vectors whose first dimensions are nearest, in order; all rows of a small index."""
        size = max(_PRESELECTED, 4 * wanted)
        if len(self._owners) <= size:
            return slice(None)
        similarity = self._first @ vector[: self._first.shape[1]]
        similarity[self._owners == FREE] = _NO_COSINE
        return np.sort(np.argpartition(similarity, len(similarity) - size)[len(similarity) - size :])

    def _match(
        self,
        connection: sqlite3.Connection,
        query_words: Sequence[_QueryWord],
        slots: Sequence[int],
        documents: int,
        clauses: Sequence[Sequence[int]],
    ) -> list[Matched]:
        """Compare the words of a request, and those of each clause, with the words of each of these documents.

        Args:
            clauses: For each clause, the positions of its words in `query_words`.
        """
        query = "SELECT slot, head, words FROM documents WHERE slot"
        rows = {row[0]: row for row in select_in(connection, query, slots)}
        word_lists = WordLists.of([(np.frombuffer(rows[slot][2], dtype=np.uint32), rows[slot][1]) for slot in slots])
        terms, vectors = self._words_of(connection, word_lists.distinct.tolist())
        missing = set(terms.tolist()) - self._holders.keys()
        self._holders.update(select_in(connection, "SELECT number, holders FROM terms WHERE number", missing))
        rare: Floats = rarity(documents, np.array([self._holders[term] for term in terms.tolist()], dtype=np.float32))
        similarity = word_similarity(self._embedder.embed([one.word for one in query_words]), vectors)
        for row, one in enumerate(query_words):
            if one.number is not None:
                similarity[row, terms == one.number] = 1.0
        weights = np.array([one.weight for one in query_words], dtype=np.float32)
        parts = [range(len(query_words)), *clauses]
        return [compare(similarity[part], weights[part], rare, word_lists) for part in map(list, parts)]

    def _near(self, connection: sqlite3.Connection, texts: Sequence[str], slots: Sequence[int]) -> Floats:
        """Return the cosine similarity of each text (row) to the nearest vector of each document (column)."""
        if not texts or not slots:
            return np.zeros((len(texts), len(slots)), dtype=np.float32)
        stored = dict(select_in(connection, "SELECT slot, vectors FROM documents WHERE slot", slots))
        positions = [np.frombuffer(stored[slot], dtype=np.uint32) for slot in slots]
        starts = np.cumsum([0, *map(len, positions[:-1])])
        similarity = self._embedder.embed(texts) @ self._vectors[np.concatenate(positions)].T
        near: Floats = np.maximum.reduceat(similarity, starts, axis=1)
        return near

    def _words_of(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[Ints, Vectors]:
        """Return, for each of these words, the id of its term and its vector."""
        missing = self._words.missing(numbers)
        self._words.add(select_in(connection, "SELECT number, term, vector FROM words WHERE number", missing))
        return self._words.of(numbers)

    def _opened_background(self) -> Background:
        if self._background is None:
            self._background = Background(self._embedder)
        return self._background

    def _usual_cosines(self) -> Usual:
        """Return the statistics of each small-talk line's highest cosine with any document vector."""
        best = self._probed.max(axis=0, initial=_NO_COSINE)
        return Usual.of(best[best > _NO_COSINE])

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the vectors that were written since the last search."""
        epoch = int(read_meta(connection, "epoch") or 0)
        if epoch == self._epoch:
            return
        last = connection.execute("SELECT coalesce(max(chunk), -1) FROM vectors").fetchone()[0]
        rows = (int(last) + 1) * VECTOR_CHUNK
        if rows > len(self._owners):
            vectors = np.zeros((rows, self._embedder.dimensions), dtype=np.float32)
            vectors[: len(self._vectors)] = self._vectors
            owners = np.full(rows, FREE, dtype=np.uint32)
            owners[: len(self._owners)] = self._owners
            first = np.zeros((rows, self._first.shape[1]), dtype=np.float32)
            first[: len(self._first)] = self._first
            self._vectors, self._owners, self._first = vectors, owners, first
        probes = self._opened_background().probes
        if rows // VECTOR_CHUNK > len(self._probed):
            probed = np.full((rows // VECTOR_CHUNK, len(probes)), _NO_COSINE, dtype=np.float32)
            if len(self._probed):
                probed[: len(self._probed)] = self._probed
            self._probed = probed
        changed = connection.execute("SELECT chunk, owners, data FROM vectors WHERE epoch > ?", (self._epoch,))
        for chunk, owners_blob, data in changed:
            at = slice(chunk * VECTOR_CHUNK, (chunk + 1) * VECTOR_CHUNK)
            self._owners[at] = np.frombuffer(owners_blob, dtype=np.uint32)
            self._vectors[at] = np.frombuffer(data, dtype=np.float32).reshape(VECTOR_CHUNK, -1)
            first = self._vectors[at, : self._first.shape[1]]
            self._first[at] = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), TINY)
            used = self._owners[at] != FREE
            self._probed[chunk] = (probes @ self._vectors[at][used].T).max(axis=1, initial=_NO_COSINE)
        self._holders.clear()
        self._epoch = epoch


def _count(connection: sqlite3.Connection) -> int:
    return int(read_meta(connection, "documents") or 0)


def _ids_of(connection: sqlite3.Connection, slots: Iterable[int]) -> dict[int, str]:
    return dict(select_in(connection, "SELECT slot, id FROM documents WHERE slot", slots))


def _named_in(connection: sqlite3.Connection, query: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the documents whose names the query contains.

    Returns:
        For each document id, 2 for the exact spelling or 1 for a similar one; then the slot of each document id.
    """
    spelled = names_in(query)
    rows = list(
        select_in(connection, "SELECT id, called, slot FROM documents WHERE folded", {folded(word) for word in spelled})
    )
    return {id_: 2 if called in spelled else 1 for id_, called, _ in rows}, {id_: slot for id_, _, slot in rows}
