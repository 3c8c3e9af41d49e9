"""`WordCache`: recently used words of an index, as arrays."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from engine.stores.embedder import Vectors

MOST_WORDS = 20_000  # 20 MB of vectors


class WordCache:
    """Caches recently used words of an index: for the id of each word, the id of its term and its vector.

    A word's id must always denote the same word.
    """

    def __init__(self, dimensions: int) -> None:
        self._at: dict[int, int] = {}
        self._terms = np.zeros(0, dtype=np.int64)
        self._vectors = np.zeros((0, dimensions), dtype=np.float32)

    def clear(self) -> None:
        self._at.clear()

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Make room for `numbers`, and return those that must be passed to `add` before `of` is called."""
        missing = [number for number in numbers if number not in self._at]
        if len(self._at) + len(missing) > MOST_WORDS:
            self.clear()
            missing = list(numbers)
        needed = len(self._at) + len(missing)
        if needed > len(self._terms):
            room = max(1024, 2 * needed) - len(self._terms)
            self._terms = np.concatenate([self._terms, np.zeros(room, dtype=np.int64)])
            self._vectors = np.vstack([self._vectors, np.zeros((room, self._vectors.shape[1]), dtype=np.float32)])
        return missing

    def add(self, words: Iterable[tuple[int, int, bytes]]) -> None:
        """Add words.

        Args:
            words: For each word, its id, the id of its term, and its vector.
        """
        for number, term, vector in words:
            at = self._at.setdefault(number, len(self._at))
            self._terms[at] = term
            self._vectors[at] = np.frombuffer(vector, dtype=np.float32)

    def of(self, numbers: Sequence[int]) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Return the terms, shape (n,), and the vectors, shape (n, dimensions), of words that are in the cache."""
        at = [self._at[number] for number in numbers]
        return self._terms[at], self._vectors[at]
