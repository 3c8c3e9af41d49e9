"""`StoredRanking`: the learned ranking of a `StoredIndex`. The file of the index contains the newest versions of it.

A version is one matrix, which says how much each feature counts. A document's weights are not stored, but calculated
from its texts. Therefore the model needs no memory per document, and a past request that is added to a document's
texts takes effect at once, without training.

The version before the newest one is kept. If it ranks the requests that have come since then better, it is used again.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.retrieval.background import Background, background_lines
from engine.retrieval.candidate_rows import CandidateRow
from engine.retrieval.index_file import read_meta
from engine.retrieval.learned_ranking import (
    BUCKETS,
    CHECKED,
    DENSE,
    GROWTH,
    LEAST_HELD,
    LEAST_SAMPLES,
    MOST_HELD,
    LearnedRanking,
    features,
    hashed,
    reciprocal_rank,
    trained,
)
from engine.retrieval.ranked import LearnedShares
from engine.retrieval.terms import Terms
from engine.stores.embedder import Vectors

CHANGES = "changes"  # in the table `meta`: how many texts were added, replaced or removed so far
_KEPT = 2  # versions
_NO_BOUND = (1 << 63) - 1  # the largest number in SQLite

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


class StoredRanking:
    """Trains, stores and reads versions of a learned ranking. Not thread-safe; `StoredIndex` does the locking."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._read = _Row()
        self._changes = 0
        self._has_previous = False
        self.model: LearnedRanking | None = None

    @property
    def note(self) -> str:
        """How the newest version was chosen, for people; "" if nothing was trained yet."""
        return f"version {self._read.version}, {self._read.note}" if self._read.version else ""

    def forget(self) -> None:
        """Discard everything in memory that was read from the file."""
        self._read, self._changes, self._has_previous, self.model = _Row(), 0, False, None

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the newest version unless it has been read already."""
        self._changes = int(read_meta(connection, CHANGES) or 0)
        newest = _newest(connection)
        self._has_previous = _newest(connection, below=newest.version).version > 0
        if (newest.version, newest.changes) != (self._read.version, self._read.changes):
            self.model = _model(connection, newest)
        self._read = newest

    def due(self, samples: int) -> bool:
        """Return whether `training` should be called: enough texts were added, replaced or removed.

        Args:
            samples: Number of vectors in the index.
        """
        read, changes = self._read, self._changes
        checks = self._has_previous and changes - read.checked >= max(LEAST_HELD, CHECKED * read.samples)
        return samples >= LEAST_SAMPLES and (read.outgrown(changes) or checks)

    def scores(self, request: str, vector: Vectors, rows: Sequence[CandidateRow], vectors: Vectors) -> Floats | None:
        """Return the score of each of these documents for a request, or None without a model.

        Args:
            request: The text of the request.
            vector: The embedding of the request.
            rows: The documents.
            vectors: All vectors of the index.
        """
        if self.model is None or not self.model.weight or not rows:
            return None
        direction = self.model.direction(features([hashed(self._terms.of(request))], vector[np.newaxis])[0])
        positions = np.frombuffer(b"".join(row.vectors for row in rows), dtype=np.uint32)
        owners = np.repeat(np.arange(len(rows)), [len(row.vectors) // positions.itemsize for row in rows])
        similar = vectors[positions] @ (direction[BUCKETS:] * np.float32(DENSE))
        found = np.bincount(owners, similar, len(rows))
        every = np.frombuffer(b"".join(row.hashed for row in rows), dtype=np.int16)
        owners = np.repeat(np.arange(len(rows)), [len(row.hashed) // every.itemsize for row in rows])
        ends = np.flatnonzero(every == 0)  # each text ends with 0
        lengths = np.diff(ends, prepend=-1)
        shares = 1 / np.maximum(np.repeat(lengths, lengths) - 1, 1) ** 0.5
        # The terminating 0 has the sign 0, so the value at its position does not matter.
        found += np.bincount(owners, direction[np.abs(every) - 1] * np.sign(every) * shares, len(rows))
        return found.astype(np.float32)

    def shares(
        self, words: Mapping[str, str], vector: Vectors, rows: Iterable[CandidateRow], vectors: Vectors
    ) -> dict[str, LearnedShares]:
        """Return how a request contributes to the score of each of these documents; empty without a model.

        Args:
            words: The terms of the request, each with the word that was stemmed to it.
            vector: The embedding of the request.
            rows: The documents.
            vectors: All vectors of the index.
        """
        if self.model is None or not self.model.weight:
            return {}
        codes = hashed(words)
        found: dict[str, LearnedShares] = {}
        for row in rows:
            samples = features(unpacked(row.hashed), vectors[np.frombuffer(row.vectors, dtype=np.uint32)])
            weights = self.model.direction(samples.sum(axis=0))  # the matrix is symmetric
            parts = [float(np.sign(code) * weights[abs(code) - 1]) / len(codes) ** 0.5 for code in codes]
            meaning = float(vector @ weights[BUCKETS:]) * DENSE
            total = sum(parts) + meaning or 1.0
            of_words = {word: part / total for word, part in zip(words.values(), parts, strict=True)}
            found[row.id] = LearnedShares(of_words, meaning / total)
        return found

    def training(
        self, connection: sqlite3.Connection, vectors: Vectors, background: Background
    ) -> Callable[[], Callable[[sqlite3.Connection], None]]:
        """Read everything that is needed to compare versions, and to train one.

        Returns:
            A function that compares the newest version with the one before it and, if that is not better, trains a new
            version if one is due. With tens of thousands of documents it takes seconds, and may be called without
            holding the lock. It returns a function that stores the result.
        """
        query = "SELECT vectors, hashed, changed FROM documents ORDER BY slot"
        rows = connection.execute(query).fetchall()
        positions = [np.frombuffer(row[0], dtype=np.uint32) for row in rows]
        embedded = vectors[np.concatenate(positions)]
        of_lines = [hashed(self._terms.of(line)) for line in background_lines()]
        newest, old, changes = self._read, self.model, self._changes
        previous = _newest(connection, below=newest.version)
        former = _model(connection, previous)

        def train() -> Callable[[sqlite3.Connection], None]:
            samples = features([each for row in rows for each in unpacked(row[1])], embedded)
            owners = np.repeat(np.arange(len(rows)), [len(each) for each in positions])
            counts = np.array([len(each) for each in positions])
            changed = np.array([row[2] for row in rows])
            latest = np.flatnonzero(counts > 1)
            latest = latest[np.argsort(-changed[latest], kind="stable")][:MOST_HELD]
            last = np.cumsum(counts) - 1  # the newest request of each document
            unseen = last[latest[changed[latest] > newest.changes]]
            if previous.version and len(unseen) >= LEAST_HELD:
                now, then = (reciprocal_rank(_matrix(each), samples, owners, unseen) for each in (old, former))
                if now < then:
                    note = (
                        f"rolled back to version {previous.version}, since version {newest.version} ranked the "
                        f"{len(unseen):,} latest requests worse (mean reciprocal rank {now:.3f} instead of {then:.3f})"
                    )
                    row = _Row(newest.version + 1, len(samples), len(rows), changes, changes, note)
                    return lambda connection: _replace(connection, row, former, keep=1)
            if not newest.outgrown(changes):
                row = replace(newest, checked=changes)
                return lambda connection: _mark(connection, row)
            result = trained(old, samples, owners, last[latest], features(of_lines, background.vectors))
            row = _Row(newest.version + 1, len(samples), len(rows), changes, changes, result.note)
            same = old is None if result.model is None else old is not None and result.model.version == old.version
            if same and newest.version:
                row = replace(row, version=newest.version)
                return lambda connection: _mark(connection, row)
            return lambda connection: _replace(connection, row, result.model, keep=_KEPT)

        return train


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table of versions without its matrix.

    Attributes:
        changes: The number of texts that had been added, replaced or removed when it was trained.
        checked: The same number when it was last compared with the version before it.
    """

    version: int = 0
    samples: int = 0
    documents: int = 0
    changes: int = 0
    checked: int = 0
    note: str = ""

    def outgrown(self, changes: int) -> bool:
        """Return whether so many texts have changed since this version was trained that a new one should be."""
        return changes - self.changes >= max(GROWTH * self.samples, 1)


def _newest(connection: sqlite3.Connection, below: int = _NO_BOUND) -> _Row:
    """Return the newest version of those below this number; version 0 if there is none."""
    query = "SELECT version, samples, documents, changes, checked, note FROM models WHERE version < ?"
    found = connection.execute(f"{query} ORDER BY version DESC LIMIT 1", (below,)).fetchone()
    return _Row(*found) if found is not None else _Row()


def _model(connection: sqlite3.Connection, row: _Row) -> LearnedRanking | None:
    """Read the model of a version; None if there is no version, or if the version is to rank without a model."""
    found = connection.execute("SELECT matrix FROM models WHERE version = ?", (row.version,)).fetchone()
    if found is None or not found[0]:
        return None
    size = int((len(found[0]) // np.dtype(np.float32).itemsize) ** 0.5)
    matrix = np.frombuffer(found[0], dtype=np.float32).reshape(size, size)
    return LearnedRanking(row.version, matrix, row.samples, row.documents)


def _matrix(model: LearnedRanking | None) -> Floats | None:
    return model.matrix if model is not None else None


def _replace(connection: sqlite3.Connection, row: _Row, model: LearnedRanking | None, keep: int) -> None:
    """Add a version, and delete all but the newest `keep` versions. Do nothing if another process was faster."""
    if connection.execute("SELECT 1 FROM models WHERE version >= ?", (row.version,)).fetchone():
        return
    matrix = model.matrix.tobytes() if model is not None else b""
    values = (row.version, row.samples, row.documents, matrix, row.changes, row.checked, row.note)
    connection.execute("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    connection.execute("DELETE FROM models WHERE version <= ?", (row.version - keep,))


def _mark(connection: sqlite3.Connection, row: _Row) -> None:
    """Store everything about a version except its matrix, which stays."""
    connection.execute(
        "UPDATE models SET samples = ?, documents = ?, changes = ?, checked = ?, note = ? WHERE version = ?",
        (row.samples, row.documents, row.changes, row.checked, row.note, row.version),
    )


def packed(texts: Sequence[Sequence[int]]) -> bytes:
    """Return the hashed words of some texts as int16, each text followed by 0."""
    return np.array([code for text in texts for code in (*text, 0)], dtype=np.int16).tobytes()


def unpacked(blob: bytes) -> list[list[int]]:
    """Decode the hashed words of texts that `packed` encoded."""
    texts: list[list[int]] = [[]]
    for code in np.frombuffer(blob, dtype=np.int16).tolist():
        if code:
            texts[-1].append(code)
        else:
            texts.append([])
    return texts[:-1]
