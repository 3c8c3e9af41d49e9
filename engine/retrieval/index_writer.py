"""`IndexWriter`: writes documents to the file of a `StoredIndex` in one transaction. Also defines the file's tables.

A slot is the number of a document, and a position is the number of a vector. A chunk is a range of slots or positions
whose data share a row.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.retrieval.bm25 import impacts
from engine.retrieval.document import Document
from engine.retrieval.index_file import read_meta, select_in
from engine.retrieval.learned_ranking import hashed
from engine.retrieval.naming import folded
from engine.retrieval.stored_ranking import CHANGES, packed
from engine.retrieval.terms import Terms
from engine.retrieval.vector_table import FREE, VECTOR_CHUNK
from engine.stores.embedder import Embedder, Vectors

FORMAT = "3"
POSTING_CHUNK = 4096  # consecutive slots (document numbers) whose postings share a row
HASH_CHARACTERS = 16
TABLES = """
CREATE TABLE documents (
    slot INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, called TEXT NOT NULL, folded TEXT NOT NULL,
    head INTEGER NOT NULL, terms BLOB NOT NULL, words BLOB NOT NULL, vectors BLOB NOT NULL, hashes TEXT NOT NULL,
    hashed BLOB NOT NULL, changed INTEGER NOT NULL
);
CREATE INDEX documents_by_name ON documents (folded);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE, holders INTEGER NOT NULL);
CREATE TABLE words (number INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, term INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE TABLE postings (term INTEGER, chunk INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, chunk)) WITHOUT ROWID;
CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, owners BLOB NOT NULL, data BLOB NOT NULL);
CREATE INDEX vectors_by_epoch ON vectors (epoch);
CREATE TABLE models (
    version INTEGER PRIMARY KEY, samples INTEGER NOT NULL, documents INTEGER NOT NULL, matrix BLOB NOT NULL,
    changes INTEGER NOT NULL, checked INTEGER NOT NULL, note TEXT NOT NULL
);
"""

Ints = npt.NDArray[np.uint32]


@dataclass(slots=True)
class _Changes:
    """The changes that one transaction makes to postings, document counts and vectors.

    Attributes:
        postings: For each term and chunk, the term's impact on the changed documents, by slot. None removes a posting.
        holders: For each term, the change in the number of documents that contain it.
        vectors: For each chunk of positions, its vectors, and the slots of the documents to which they belong.
    """

    postings: dict[tuple[int, int], dict[int, float | None]] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)
    vectors: dict[int, tuple[Ints, Vectors]] = field(default_factory=dict)

    def set_impact(self, term: int, slot: int, impact: float | None) -> None:
        self.postings.setdefault((term, slot // POSTING_CHUNK), {})[slot] = impact

    def add_holders(self, term: int, number: int) -> None:
        self.holders[term] = self.holders.get(term, 0) + number


@dataclass(frozen=True, slots=True)
class _Parts:
    """A document, prepared for storage."""

    document: Document
    impacts: Mapping[str, float]
    words: Mapping[str, str]  # one word for each term; the terms of the head come first
    head: int  # number of words in the head
    texts: tuple[str, ...]  # each of these texts gets a vector
    hashes: tuple[str, ...]


class IndexWriter:
    """Writes documents within a transaction. Not thread-safe."""

    def __init__(self, embedder: Embedder, terms: Terms) -> None:
        self._embedder = embedder
        self._splitter = terms

    def write(
        self, connection: sqlite3.Connection, documents: Mapping[str, Document | None], notes: Mapping[str, str]
    ) -> None:
        """Add and remove documents within the connection's transaction.

        Args:
            connection: Has an open transaction.
            documents: The documents by id. None removes the document with that id.
            notes: Values for the table `meta`.
        """
        parts = {id_: self._parts(document) for id_, document in documents.items() if document is not None}
        epoch = int(read_meta(connection, "epoch") or 0) + 1
        changes = _Changes()
        texts_before = self._texts_before(connection, documents)
        changed = int(read_meta(connection, CHANGES) or 0)
        known = self._remove(connection, documents, changes)
        terms = self._terms(connection, {term for each in parts.values() for term in each.impacts})
        words = self._words(connection, {word: terms[t] for each in parts.values() for t, word in each.words.items()})
        next_slot = connection.execute("SELECT coalesce(max(slot), -1) + 1 FROM documents").fetchone()[0]
        positions = _VectorPositions(connection, self._embedder.dimensions, changes.vectors)
        texts = [text for each in parts.values() for text in each.texts]
        vectors = iter(self._embedder.embed(texts))
        for id_, each in parts.items():
            slot, old = known.pop(id_, (None, []))
            if slot is None:
                slot, next_slot = next_slot, next_slot + 1
            numbers = [positions.put(slot, next(vectors), old) for _ in each.hashes]
            positions.free(old)
            for term, impact in each.impacts.items():
                changes.set_impact(terms[term], slot, impact)
                changes.add_holders(terms[term], 1)
            hashes, changed_at = texts_before.pop(id_, (frozenset(), 0))
            differing = len(hashes.symmetric_difference(each.hashes))
            changed += differing
            called = each.document.called
            row = (slot, id_, called, folded(called), each.head)
            blobs = (
                np.array([terms[term] for term in each.impacts], dtype=np.uint32).tobytes(),
                np.array([words[word] for word in each.words.values()], dtype=np.uint32).tobytes(),
                np.array(numbers, dtype=np.uint32).tobytes(),
            )
            connection.execute(
                "INSERT OR REPLACE INTO documents VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (
                    *(*row, *blobs, " ".join(each.hashes)),
                    packed([hashed(self._splitter.of(text)) for text in each.texts]),
                    changed if differing else changed_at,
                ),
            )
        changed += sum(len(hashes) for hashes, _ in texts_before.values())
        for id_, (_, old) in known.items():
            positions.free(old)
            connection.execute("DELETE FROM documents WHERE id = ?", (id_,))
        self._store(connection, changes, epoch)
        count = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        meta = {**notes, "epoch": str(epoch), "documents": str(count), CHANGES: str(changed)}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())

    def _parts(self, document: Document) -> _Parts:
        of_head = self._splitter.with_words(document.head)
        rest = self._splitter.with_words(document.rest)
        words = of_head | rest | of_head  # head terms come first; if a term is in both, the head's word is used
        found = impacts(document.fields, self._splitter)
        texts = tuple(dict.fromkeys(document.embedded))
        return _Parts(document, found, words, len(of_head), texts, tuple(map(self._hash, texts)))

    def _hash(self, text: str) -> str:
        return hashlib.sha256(f"{self._embedder.name}\0{text}".encode()).hexdigest()[:HASH_CHARACTERS]

    @staticmethod
    def _texts_before(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, tuple[frozenset[str], int]]:
        """Return the hashes of the texts of these documents, and the number of changes at their last change, by id."""
        rows = select_in(connection, "SELECT id, hashes, changed FROM documents WHERE id", ids)
        return {id_: (frozenset(hashes.split()), changed) for id_, hashes, changed in rows}

    def _remove(
        self, connection: sqlite3.Connection, ids: Iterable[str], changes: _Changes
    ) -> dict[str, tuple[int | None, list[int]]]:
        """Remove the postings of these documents, and return their slots and the positions of their vectors by id."""
        known: dict[str, tuple[int | None, list[int]]] = {}
        query = "SELECT id, slot, terms, vectors FROM documents WHERE id"
        for id_, slot, terms, vectors in select_in(connection, query, ids):
            known[id_] = (slot, np.frombuffer(vectors, dtype=np.uint32).tolist())
            for term in np.frombuffer(terms, dtype=np.uint32).tolist():
                changes.set_impact(term, slot, None)
                changes.add_holders(term, -1)
        return known

    @staticmethod
    def _terms(connection: sqlite3.Connection, terms: set[str]) -> dict[str, int]:
        """Return the id of each term, after inserting the terms that are new."""
        known = dict(select_in(connection, "SELECT term, number FROM terms WHERE term", terms))
        new = sorted(terms - known.keys())
        first = connection.execute("SELECT coalesce(max(number), -1) + 1 FROM terms").fetchone()[0]
        known |= {term: first + at for at, term in enumerate(new)}
        connection.executemany("INSERT INTO terms VALUES (?, ?, 0)", [(known[term], term) for term in new])
        return known

    def _words(self, connection: sqlite3.Connection, words: Mapping[str, int]) -> dict[str, int]:
        """Return the id of each word, after embedding and inserting the words that are new.

        `words` maps each word to the id of its term.
        """
        known = dict(select_in(connection, "SELECT word, number FROM words WHERE word", words))
        new = sorted(words.keys() - known.keys())
        first = connection.execute("SELECT coalesce(max(number), -1) + 1 FROM words").fetchone()[0]
        known |= {word: first + at for at, word in enumerate(new)}
        vectors = self._embedder.embed(new)
        rows = [(known[word], word, words[word], vector.tobytes()) for word, vector in zip(new, vectors, strict=True)]
        connection.executemany("INSERT INTO words VALUES (?, ?, ?, ?)", rows)
        return known

    @staticmethod
    def _store(connection: sqlite3.Connection, changes: _Changes, epoch: int) -> None:
        for (term, chunk), slots in changes.postings.items():
            query = "SELECT data FROM postings WHERE term = ? AND chunk = ?"
            found = connection.execute(query, (term, chunk)).fetchone()
            kept = _unpacked(found[0]) if found else {}
            kept.update({slot: impact for slot, impact in slots.items() if impact is not None})
            for slot, impact in slots.items():
                if impact is None:
                    kept.pop(slot, None)
            if kept:
                connection.execute("INSERT OR REPLACE INTO postings VALUES (?, ?, ?)", (term, chunk, _packed(kept)))
            else:
                connection.execute("DELETE FROM postings WHERE term = ? AND chunk = ?", (term, chunk))
        more = [(more, term) for term, more in changes.holders.items() if more]
        connection.executemany("UPDATE terms SET holders = holders + ? WHERE number = ?", more)
        rows = [(chunk, epoch, owners.tobytes(), data.tobytes()) for chunk, (owners, data) in changes.vectors.items()]
        connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)


class _VectorPositions:
    """Assigns positions to vectors. It uses the positions of replaced vectors first, then new ones at the end."""

    def __init__(
        self, connection: sqlite3.Connection, dimensions: int, chunks: dict[int, tuple[Ints, Vectors]]
    ) -> None:
        self._connection = connection
        self._dimensions = dimensions
        self._chunks = chunks
        self._next = int(read_meta(connection, "vectors_used") or 0)

    def put(self, slot: int, vector: Vectors, old: list[int]) -> int:
        """Store a vector and return its position.

        Args:
            slot: The slot of the document to which the vector belongs.
            vector: The vector.
            old: Positions that may be reused. If one is used, it is removed from this list.
        """
        if old:
            number = old.pop()
        else:
            number, self._next = self._next, self._next + 1
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('vectors_used', ?)", (str(self._next),))
        owners, data = self._chunk(number // VECTOR_CHUNK)
        owners[number % VECTOR_CHUNK] = slot
        data[number % VECTOR_CHUNK] = vector
        return number

    def free(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._chunk(number // VECTOR_CHUNK)[0][number % VECTOR_CHUNK] = FREE

    def _chunk(self, chunk: int) -> tuple[Ints, Vectors]:
        if chunk not in self._chunks:
            query = "SELECT owners, data FROM vectors WHERE chunk = ?"
            found = self._connection.execute(query, (chunk,)).fetchone()
            if found is None:
                owners = np.full(VECTOR_CHUNK, FREE, dtype=np.uint32)
                data = np.zeros((VECTOR_CHUNK, self._dimensions), dtype=np.float32)
            else:
                owners = np.frombuffer(found[0], dtype=np.uint32).copy()
                data = np.frombuffer(found[1], dtype=np.float32).reshape(VECTOR_CHUNK, -1).copy()
            self._chunks[chunk] = (owners, data)
        return self._chunks[chunk]


def _unpacked(blob: bytes) -> dict[int, float]:
    half = len(blob) // 2
    slots = np.frombuffer(blob, dtype=np.uint32, count=half // 4)
    return dict(zip(slots.tolist(), np.frombuffer(blob, dtype=np.float32, offset=half).tolist(), strict=True))


def _packed(postings: Mapping[int, float]) -> bytes:
    slots = np.fromiter(postings.keys(), dtype=np.uint32, count=len(postings))
    return slots.tobytes() + np.fromiter(postings.values(), dtype=np.float32, count=len(postings)).tobytes()
