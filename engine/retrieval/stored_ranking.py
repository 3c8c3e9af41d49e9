"""`StoredRanking`: the learned ranking of a `StoredIndex`. The file of the index contains the newest versions of it.

A version is one matrix, which says how much each feature counts. A document's weights are not stored, but calculated
from its texts. Therefore the model needs no memory per document, and a past request that is added to a document's
texts takes effect at once, without training.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from engine.retrieval.background import Background, background_lines
from engine.retrieval.candidate_rows import CandidateRow
from engine.retrieval.learned_ranking import (
    BUCKETS,
    DENSE,
    GROWTH,
    LEAST_SAMPLES,
    MOST_HELD,
    LearnedRanking,
    features,
    hashed,
    trained,
)
from engine.retrieval.ranked import LearnedShares
from engine.retrieval.terms import Terms
from engine.stores.embedder import Vectors

_KEPT = 2  # versions

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


class StoredRanking:
    """Trains, stores and reads versions of a learned ranking. Not thread-safe; `StoredIndex` does the locking."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._version = 0
        self._trained_with = 0
        self.model: LearnedRanking | None = None

    def forget(self) -> None:
        """Discard everything in memory that was read from the file."""
        self._version, self._trained_with, self.model = 0, 0, None

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the newest version unless it has been read already."""
        query = "SELECT version, samples, documents FROM models ORDER BY version DESC LIMIT 1"
        row = connection.execute(query).fetchone() or (0, 0, 0)
        self._trained_with = row[1]
        if row[0] != self._version:
            matrix = connection.execute("SELECT matrix FROM models WHERE version = ?", row[:1]).fetchone()[0]
            size = int((len(matrix) // np.dtype(np.float32).itemsize) ** 0.5)
            loaded = np.frombuffer(matrix, dtype=np.float32).reshape(size, size)
            self.model = LearnedRanking(row[0], loaded, row[1], row[2]) if size else None
            self._version = row[0]

    def due(self, samples: int) -> bool:
        """Return whether a model should be trained.

        Args:
            samples: Number of vectors in the index.
        """
        changed = abs(samples - self._trained_with)
        return samples >= LEAST_SAMPLES and changed >= max(GROWTH * self._trained_with, 1)

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
    ) -> Callable[[], tuple[int, int, int, bytes]]:
        """Read everything that is needed to train a model.

        Returns:
            A function that trains a model and returns a row for the table of versions. With tens of thousands of
            documents it takes seconds. It may be called without holding the lock.
        """
        rows = connection.execute("SELECT vectors, hashed FROM documents ORDER BY slot").fetchall()
        positions = [np.frombuffer(row[0], dtype=np.uint32) for row in rows]
        embedded = vectors[np.concatenate(positions)]
        of_lines = [hashed(self._terms.of(line)) for line in background_lines()]
        old, version = self.model, self._version + 1

        def train() -> tuple[int, int, int, bytes]:
            samples = features([each for row in rows for each in unpacked(row[1])], embedded)
            owners = np.repeat(np.arange(len(rows)), [len(each) for each in positions])
            newest = np.cumsum([len(each) for each in positions]) - 1
            newest = newest[[len(each) > 1 for each in positions]]
            held = newest[:: max(1, -(-len(newest) // MOST_HELD))]
            model = trained(old, samples, owners, held, features(of_lines, background.vectors))
            return version, len(samples), len(rows), model.matrix.tobytes() if model is not None else b""

        return train

    @staticmethod
    def store(connection: sqlite3.Connection, row: tuple[int, int, int, bytes]) -> None:
        """Add a version, and delete all but the newest `_KEPT` versions."""
        connection.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)", row)
        connection.execute("DELETE FROM models WHERE version <= ?", (row[0] - _KEPT,))


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
