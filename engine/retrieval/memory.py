"""`MemoryVectors`: a `VectorIndex` in memory with exact search, for small sets of tools, indexed at every start."""

from collections.abc import Sequence

import numpy as np

from engine.stores.embedder import Vectors


class MemoryVectors:
    """Stores unit vectors by name, and searches them. Not thread-safe; `HybridIndex` holds a lock while it uses it."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._rows: dict[str, Vectors] = {}
        self._matrix: tuple[list[str], Vectors] | None = None
        self._revision = 0
        self.made_by: str | None = None

    @property
    def revision(self) -> int:
        return self._revision

    def upsert(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Add or replace vectors.

        Raises:
            ValueError: The shape of the array is not (number of ids, dimensions).
        """
        if vectors.shape != (len(ids), self._dimensions):
            raise ValueError(
                f"The vectors must have the shape {(len(ids), self._dimensions)}, but have {vectors.shape}."
            )
        self._rows.update(zip(ids, vectors, strict=True))
        self._changed()

    def delete(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            self._rows.pop(id_, None)
        self._changed()

    def query(self, vector: Vectors, k: int) -> list[tuple[str, float]]:
        if self._matrix is None:
            rows = list(self._rows.values())
            self._matrix = list(self._rows), np.stack(rows) if rows else np.zeros((0, self._dimensions), np.float32)
        names, matrix = self._matrix
        similarity = matrix @ vector
        nearest = np.arange(len(names))
        if k < len(names):
            kth = np.partition(similarity, len(names) - k)[len(names) - k]
            nearest = np.flatnonzero(similarity >= kth)  # includes all ties with the k-th, so that the order is stable
        order = nearest[np.argsort(-similarity[nearest], kind="stable")][:k]
        return [(names[at], float(similarity[at])) for at in order]

    def ids(self, among: Sequence[str] | None = None) -> set[str]:
        return set(self._rows) if among is None else self._rows.keys() & set(among)

    def count(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        self._rows.clear()
        self._changed()

    def _changed(self) -> None:
        self._matrix = None
        self._revision += 1
