"""`VectorTable`: keeps the vectors of a `StoredIndex` in memory, and finds those nearest to a request."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.retrieval.background import Usual
from engine.retrieval.index import MAX_VECTORS_PER_CANDIDATE
from engine.retrieval.postings import above
from engine.stores.embedder import Vectors

FREE = 0xFFFFFFFF  # the owner of a vector position that is not in use
VECTOR_CHUNK = 64  # vectors in one row; a change rewrites a whole row

# The nearest vectors are preselected by their first dimensions and then compared in all dimensions. The embedder was
# trained so that the first dimensions alone are an embedding (Matryoshka representation learning, arXiv:2205.13147).
# Reading a quarter of each vector takes a quarter of the time. Of the nearest 100 vectors, 97.5 are preselected; with
# the signs of all dimensions (Hamming distance) instead, 95.5.
_FIRST = 64
_PRESELECTED = 2_000  # the fewest vectors to compare in all dimensions; in smaller indexes, all vectors are compared
_SPARE = 8  # arrays grow by an eighth more than needed, so that not every addition copies all vectors

_NO_COSINE = -2.0  # less than any cosine
_TINY = 1e-6

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


class VectorTable:
    """Holds all vectors by position, and the slot (number) of each vector's document. Not thread-safe."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self.forget()

    def forget(self) -> None:
        """Discard everything in memory that was read from the file."""
        self._epoch = -1
        self._rows = 0
        self._vectors: Vectors = np.zeros((0, self._dimensions), dtype=np.float32)
        self._owners: npt.NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)
        self._first: Vectors = np.zeros((0, min(_FIRST, self._dimensions)), dtype=np.float32)  # normalized
        self._free: Ints = np.zeros(0, dtype=np.intp)
        self._probed: Floats = np.zeros((0, 0), dtype=np.float32)  # per chunk, the greatest cosine of each probe
        self._usual = Usual()

    @property
    def vectors(self) -> Vectors:
        """All vectors by position. Rows at unused positions are meaningless."""
        return self._vectors[: self._rows]

    @property
    def used(self) -> int:
        """The number of positions in use."""
        return self._rows - len(self._free)

    @property
    def usual(self) -> Usual:
        """How similar unrelated text is to the vectors. It is measured with the probes of `catch_up`.

        For each probe, the cosine with the most similar vector is taken. The result is the mean and the deviation of
        these cosines.
        """
        return self._usual

    def catch_up(self, connection: sqlite3.Connection, epoch: int, probes: Vectors) -> bool:
        """Read the vectors that were written since the last time.

        Args:
            connection: Has an open transaction.
            epoch: The number of the last change to the index.
            probes: Vectors of lines of small talk, which are compared with all vectors for `usual`.

        Returns:
            Whether anything had changed.
        """
        if epoch == self._epoch:
            return False
        last = connection.execute("SELECT coalesce(max(chunk), -1) FROM vectors").fetchone()[0]
        self._make_room((int(last) + 1) * VECTOR_CHUNK, len(probes))
        changed = connection.execute("SELECT chunk, owners, data FROM vectors WHERE epoch > ?", (self._epoch,))
        for chunk, owners, data in changed:
            at = slice(chunk * VECTOR_CHUNK, (chunk + 1) * VECTOR_CHUNK)
            self._owners[at] = np.frombuffer(owners, dtype=np.uint32)
            self._vectors[at] = np.frombuffer(data, dtype=np.float32).reshape(VECTOR_CHUNK, -1)
            first = self._vectors[at, : self._first.shape[1]]
            self._first[at] = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), _TINY)
            used = self._owners[at] != FREE
            self._probed[chunk] = (probes @ self._vectors[at][used].T).max(axis=1, initial=_NO_COSINE)
        self._free = np.flatnonzero(self._owners[: self._rows] == FREE)
        best = self._probed.max(axis=0, initial=_NO_COSINE)
        self._usual = Usual.of(best[best > _NO_COSINE])
        self._epoch = epoch
        return True

    def nearest(self, vector: Vectors, count: int, documents: int) -> dict[int, float]:
        """Return the nearest documents by slot, each with the cosine similarity of its nearest vector.

        Args:
            vector: The embedding of the request.
            count: The greatest number of documents.
            documents: How many documents the index has.
        """
        if not documents or not self.used or not vector.any():
            return {}
        wanted = min(self.used, count * min(MAX_VECTORS_PER_CANDIDATE, -(-self.used // documents)))
        rows = self._preselect(vector, wanted)
        similarity = self._vectors[rows] @ vector
        owners = self._owners[rows]
        similarity[owners == FREE] = _NO_COSINE
        kth = np.partition(similarity, len(similarity) - wanted)[len(similarity) - wanted]
        near = np.flatnonzero(similarity >= kth)
        near = near[np.argsort(-similarity[near], kind="stable")]
        best: dict[int, float] = {}
        for slot, each in zip(owners[near].tolist(), similarity[near].tolist(), strict=True):
            if len(best) == count:
                break
            best.setdefault(slot, each)
        return best

    def cosines(self, vectors: Vectors, positions: Sequence[Ints]) -> Floats:
        """Return the cosine similarity of each of these vectors (row) to the nearest vector of each document (column).

        Args:
            vectors: One row for each text.
            positions: For each document, the positions of its vectors.
        """
        if not len(vectors) or not positions:
            return np.zeros((len(vectors), len(positions)), dtype=np.float32)
        starts = np.cumsum([0, *map(len, positions[:-1])])
        similarity = vectors @ self._vectors[np.concatenate(positions)].T
        near: Floats = np.maximum.reduceat(similarity, starts, axis=1)
        return near

    def _preselect(self, vector: Vectors, wanted: int) -> Ints | slice:
        """Return the positions of the vectors whose first dimensions are nearest to those of `vector`, in order.

        In a small index, these are all positions.
        """
        size = max(_PRESELECTED, 4 * wanted)
        if self._rows <= size:
            return slice(0, self._rows)
        similarity = self._first[: self._rows] @ vector[: self._first.shape[1]]
        similarity[self._free] = _NO_COSINE
        return above(similarity, size)

    def _make_room(self, rows: int, probes: int) -> None:
        self._rows = max(self._rows, rows)
        if rows > len(self._owners):
            room = rows + rows // _SPARE // VECTOR_CHUNK * VECTOR_CHUNK
            self._owners = _enlarged(self._owners, room, FREE)
            self._vectors = _enlarged(self._vectors, room, 0)
            self._first = _enlarged(self._first, room, 0)
        chunks = len(self._owners) // VECTOR_CHUNK
        if chunks > len(self._probed):
            probed = self._probed if len(self._probed) else np.zeros((0, probes), dtype=np.float32)
            self._probed = _enlarged(probed, chunks, _NO_COSINE)


def _enlarged(old: npt.NDArray[Any], rows: int, value: float) -> npt.NDArray[Any]:
    # Pages of zeros that are never written take no memory.
    new = np.zeros((rows, *old.shape[1:]), dtype=old.dtype)
    new[: len(old)] = old
    if value:
        new[len(old) :] = value
    return new
