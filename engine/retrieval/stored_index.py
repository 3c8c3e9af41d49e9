"""`StoredIndex`: searches like `HybridIndex`, but keeps its data in one file that all processes of a home share.

The file is an SQLite database, so changes are atomic and immediately visible to all processes. Postings and vectors are
blobs that numpy reads without conversion. A search reads the postings of its terms and the words of its candidates. It
compares the request first with a few dimensions of every vector, and then with all dimensions of the nearest vectors.
Everything in the file can be rebuilt: a damaged file, or one made with another embedder, is replaced by an empty one.
"""

import logging
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from engine.retrieval.background import Background
from engine.retrieval.bm25 import rarity
from engine.retrieval.candidate_rows import CandidateRow, CandidateRows
from engine.retrieval.clauses import clauses_of
from engine.retrieval.document import Document
from engine.retrieval.fusion import DENSE_WEIGHT
from engine.retrieval.index import CANDIDATES, PER_RESULT
from engine.retrieval.index_file import IndexFile, read_meta, select_in
from engine.retrieval.index_writer import FORMAT, TABLES, IndexWriter
from engine.retrieval.naming import folded, names_in
from engine.retrieval.postings import Postings, best_of, terms_of
from engine.retrieval.ranked import LearnedShares, Ranked, Weigh
from engine.retrieval.ranking import ClauseFigures, Figures, ordered, ranking, rarest_of, selected
from engine.retrieval.shared_index import SharedIndex
from engine.retrieval.stored_match import QueryWord, StoredMatch
from engine.retrieval.stored_ranking import StoredRanking
from engine.retrieval.terms import Terms, encodable, weight_of
from engine.retrieval.vector_table import VectorTable
from engine.retrieval.word_match import Matched
from engine.stores.embedder import Embedder, Vectors

log = logging.getLogger(__name__)


class StoredIndex(SharedIndex[Document]):
    """A searchable set of documents in a file. Thread-safe. The file is opened on first use. Call `close` once."""

    def __init__(self, path: Path, embedder: Embedder, dense_weight: float = DENSE_WEIGHT) -> None:
        """Create an index.

        Args:
            path: The file. It is created on first use.
            embedder: Makes the vectors.
            dense_weight: How much vectors count when candidates are selected: from 0 (only words) to 1 (only vectors).
        """
        self._terms = Terms()
        super().__init__(
            IndexFile(path, f"{FORMAT}:{embedder.name}:{embedder.dimensions}", TABLES),
            IndexWriter(embedder, self._terms),
        )
        self._embedder = embedder
        self._dense_weight = dense_weight
        self._table = VectorTable(embedder.dimensions)
        self._postings = Postings()
        self._rows = CandidateRows()
        self._match = StoredMatch(embedder)
        self._learned = StoredRanking(self._terms)
        self._background: Background | None = None
        self._documents = 0
        self._size = 0  # one more than the highest slot

    def __len__(self) -> int:
        with self._reading() as connection:
            return _count(connection)

    def search(self, query: str, k: int, weigh: Weigh | None = None) -> list[Ranked]:
        """Return the `k` best documents, best first.

        Documents whose exact name is in the query rank first; the spelling may differ in case, or have `-` for `_`.

        Args:
            query: The request.
            k: The number of results.
            weigh: Returns a factor for the score of each candidate, such as a success rate.
        """
        query = encodable(query)
        # Use one BLAS thread, because these products take less time than synchronizing threads, especially under load.
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            count = max(CANDIDATES, PER_RESULT * k)
            words = self._terms.with_words(query)
            known = terms_of(connection, list(words))
            weights = {
                term: float(rarity(self._documents, known[term][1] if term in known else 0)) * weight_of(term)
                for term in words
            }
            asked = [
                QueryWord(term, words[term], weights[term], known.get(term, (None,))[0]) for term in rarest_of(weights)
            ]
            scores = self._postings.scores(connection, _known_weights(asked), self._size)
            vector = self._embedder.embed([query])[0]
            sparse = best_of(scores, count)
            dense = self._table.nearest(vector, count, self._documents)
            fused = selected(sparse, dense, count, self._dense_weight)
            named = _named_in(connection, query)
            rows = self._rows.of(connection, {*fused, *named})
            named = {slot: how for slot, how in named.items() if slot in rows}
            slot_of = {row.id: slot for slot, row in rows.items()}
            ids = ordered(
                {rows[slot].id: score for slot, score in fused.items() if slot in rows},
                {rows[slot].id: how for slot, how in named.items()},
                count,
            )
            slots = [slot_of[id_] for id_ in ids]
            chosen = [rows[slot] for slot in slots]
            matched, clauses = self._compare(connection, query, asked, slots, chosen)
            learned = self._learned.scores(query, vector, chosen, self._table.vectors)
            figures = Figures(
                ids,
                {id_: sparse[slot] for id_, slot in zip(ids, slots, strict=True) if slot in sparse},
                {id_: dense[slot] for id_, slot in zip(ids, slots, strict=True) if slot in dense},
                {rows[slot].id: how for slot, how in named.items()},
                matched,
                len(words),
                sum(one.weight for one in asked),
                self._opened_background().resemblance(vector),
                self._table.usual,
                clauses,
                learned,
                self._learned.model.weight if self._learned.model is not None else 0.0,
                min(dense.values(), default=0.0),
            )
        return ranking(figures, k, weigh)

    def learned_shares(self, query: str, ids: Collection[str]) -> dict[str, LearnedShares]:
        """Return the parts of each document's score in the learned ranking that come from the words of a query.

        Returns:
            The parts by document id; empty if no model is trained yet.
        """
        query = encodable(query)
        with self._reading() as connection:
            self._catch_up(connection)
            slots = [row[0] for row in select_in(connection, "SELECT slot FROM documents WHERE id", ids)]
            rows, vector = self._rows.of(connection, slots).values(), self._embedder.embed([query])[0]
            return self._learned.shares(self._terms.with_words(query), vector, rows, self._table.vectors)

    def ranking_note(self) -> str:
        """Return which version of the learned ranking is used, and why; "" if nothing was trained yet."""
        with self._reading() as connection:
            self._catch_up(connection)
            return self._learned.note

    def training_due(self) -> bool:
        """Return whether enough has changed for `train` to be worthwhile."""
        with self._reading() as connection:
            self._catch_up(connection)
            return self._learned.due(self._table.used)

    def train(self) -> bool:
        """Compare the newest version of the learned ranking with the one before it, or train a new one.

        If the version before ranks the latest requests better, it is used again at once. Otherwise a new version is
        trained if enough has changed; if the current model, or none, ranks the latest requests better, that is used.

        Returns:
            Whether anything was due, and its result was stored.
        """
        if not self.training_due():
            return False
        with self._reading() as connection:
            self._catch_up(connection)
            training = self._learned.training(connection, self._table.vectors, self._opened_background())
        with self._blas.limit(limits=1, user_api="blas"):
            store = training()  # without the lock, so that searches need not wait
        with self._lock:
            return self._file.write(store)

    def vectors_of(self, ids: Iterable[str]) -> tuple[list[str], Vectors]:
        """Return the names and the vectors of these documents, to be added to a vector store.

        Returns:
            A name for each vector, and the vectors in the same order. A document may have several vectors.
        """
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
            return names, self._table.vectors[rows]

    def vector_names(self) -> dict[str, str]:
        """Return the names of all vectors, each with the id of its document."""
        with self._reading() as connection:
            rows = connection.execute("SELECT id, hashes FROM documents")
            return {f"{id_}#{each}": id_ for id_, hashes in rows for each in hashes.split()}

    def _forget(self) -> None:
        self._table.forget()
        self._learned.forget()
        self._match.clear()

    def _compare(
        self,
        connection: sqlite3.Connection,
        query: str,
        asked: Sequence[QueryWord],
        slots: Sequence[int],
        rows: Sequence[CandidateRow],
    ) -> tuple[Matched, list[ClauseFigures]]:
        """Compare a request, and each of its clauses, with documents.

        Args:
            connection: Has an open transaction.
            query: The text of the request.
            asked: The words of the request.
            slots: The slot numbers of the documents.
            rows: The stored data of the documents.
        """
        texts = clauses_of(query, self._terms)
        terms = [self._terms.with_words(text) for text in texts]
        parts = [[at for at, one in enumerate(asked) if one.term in each] for each in terms]
        matched, *of_clauses = self._match.parts(connection, asked, rows, [range(len(asked)), *parts], self._documents)
        if not texts:
            return matched, []
        impacts = np.zeros((len(asked), len(slots)), dtype=np.float32)
        known = [at for at, one in enumerate(asked) if one.number is not None]
        numbers = [one.number for one in asked if one.number is not None]
        impacts[known] = self._postings.impacts(connection, numbers, slots, self._size)
        weights = np.array([one.weight for one in asked], dtype=np.float32)
        near = self._table.cosines(self._embedder.embed(texts), [np.frombuffer(row.vectors, np.uint32) for row in rows])
        return matched, [
            ClauseFigures(weights[part] @ impacts[part], near[at], each, len(terms[at]))
            for at, (part, each) in enumerate(zip(parts, of_clauses, strict=True))
        ]

    def _opened_background(self) -> Background:
        if self._background is None:
            self._background = Background(self._embedder)
        return self._background

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read what was written since the last search."""
        epoch = int(read_meta(connection, "epoch") or 0)
        if self._table.catch_up(connection, epoch, self._opened_background().probes):
            self._documents = _count(connection)
            self._size = int(connection.execute("SELECT coalesce(max(slot), -1) + 1 FROM documents").fetchone()[0])
            self._postings.clear()
            self._rows.clear()
            self._match.forget_holders()
        self._learned.catch_up(connection)


def _count(connection: sqlite3.Connection) -> int:
    return int(read_meta(connection, "documents") or 0)


def _known_weights(words: Sequence[QueryWord]) -> dict[int, float]:
    """Return the weights of those words of a request that occur in documents, by term id."""
    return {word.number: word.weight for word in words if word.number is not None}


def _named_in(connection: sqlite3.Connection, query: str) -> dict[int, int]:
    """Return the slots of the documents that the query names: 2 for the exact spelling, 1 for a similar one."""
    spelled = names_in(query)
    rows = select_in(connection, "SELECT slot, called FROM documents WHERE folded", {folded(word) for word in spelled})
    return {slot: 2 if called in spelled else 1 for slot, called in rows}
