"""`SearchParts`: the embedder and the vector store of an engine, loaded at first use."""

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
    """A value that is created once, at first use. Thread-safe."""

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
        """The value, if it has been created."""
        return self._made[0] if self._made else None


class SearchParts:
    """The embedder and the vector store of an engine. Thread-safe."""

    def __init__(self, folder: Path, records: Records) -> None:
        """Create the object without loading anything. Both parts need numpy, and listing tools needs neither of them.

        Args:
            folder: The folder in which the vector store keeps its files.
            records: The database of the home.
        """

        def make_embedder() -> "Embedder":
            from engine.stores.embedder import shared_wordllama  # noqa: PLC0415 -- imports numpy

            return shared_wordllama()

        def make_vectors() -> "VectorStore":
            from engine.stores.vectors import VectorStore  # noqa: PLC0415 -- imports numpy

            return VectorStore(folder, records)

        self.embedder: Once[Embedder] = Once(make_embedder)
        self.vectors: Once[VectorStore] = Once(make_vectors)

    def close(self) -> None:
        """Close the vector store, if it was used."""
        vectors = self.vectors.made
        if vectors is not None:
            vectors.close()
