"""`SearchParts`: the embedder and the store of vectors of an engine, loaded at their first use."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from engine.stores.records import Records

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder
    from engine.stores.vectors import VectorStore

T = TypeVar("T")


class Once(Generic[T]):
    """A value made at its first use, by one thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    @property
    def made(self) -> T | None:
        """The value, if it has been made."""
        return self._made[0] if self._made else None


class SearchParts:
    """Threads may share it; `close` it once."""

    def __init__(self, folder: Path, records: Records) -> None:
        """folder: of the vectors. Neither part is loaded yet: both need numpy, and listing tools needs neither."""

        def make_embedder() -> "Embedder":
            from engine.stores.embedder import WordLlamaEmbedder  # noqa: PLC0415 -- numpy

            return WordLlamaEmbedder()

        def make_vectors() -> "VectorStore":
            from engine.stores.vectors import VectorStore  # noqa: PLC0415 -- numpy

            return VectorStore(folder, records)

        self.embedder: Once[Embedder] = Once(make_embedder)
        self.vectors: Once[VectorStore] = Once(make_vectors)

    def close(self) -> None:
        """Close the store of vectors, if it was used."""
        vectors = self.vectors.made
        if vectors is not None:
            vectors.close()
