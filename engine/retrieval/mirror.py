"""`VectorMirror`: copies the vectors of a `StoredIndex` to a vector store, such as Chroma.

Searches use the index's own copy of the vectors and never open the vector store. Therefore a store that is locked, slow
or damaged neither delays a search nor changes its results. The copy is made in a background thread.
"""

import logging
import threading
from collections.abc import Callable

from engine.contract.failure import ConfigError
from engine.retrieval.stored_index import StoredIndex
from engine.stores.locks import StoreBusy
from engine.stores.vectors import VectorIndex

BATCH = 500  # vectors written at a time

log = logging.getLogger(__name__)


class VectorMirror:
    """Keeps the vectors in a vector store identical to the vectors of an index. Thread-safe."""

    def __init__(self, index: StoredIndex, collection: Callable[[], VectorIndex], embedder: str) -> None:
        """Create a mirror.

        Args:
            index: The index that has the vectors.
            collection: Opens the vector store, which takes seconds.
            embedder: The name of the embedder that made the vectors.
        """
        self._index = index
        self._open = collection
        self._embedder = embedder
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._synced: tuple[str, int] | None = None

    def stop(self) -> None:
        """Make `sync` return after its current batch."""
        self._stopped.set()

    def sync(self) -> tuple[int, int]:
        """Write missing vectors to the vector store, and delete those that belong to no document of the index.

        Returns:
            The number of vectors written, and the number deleted.

        Raises:
            ConfigError: The vector store is unusable.
            StoreBusy: Another process is using the vector store.
        """
        with self._lock:
            collection = self._open()
            state = (self._index.note("epoch"), collection.revision)
            if state == self._synced:
                return 0, 0
            wanted, present = self._index.vector_names(), collection.ids()
            missing = {name: document for name, document in wanted.items() if name not in present}
            if missing:
                collection.made_by = None  # if the process is killed, the collection must not seem complete
            added = 0
            documents = list(dict.fromkeys(missing.values()))
            for start in range(0, len(documents), BATCH):
                if self._stopped.is_set():
                    return added, 0
                names, vectors = self._index.vectors_of(documents[start : start + BATCH])
                collection.upsert(names, vectors)
                added += len(names)
            stale = sorted(present - wanted.keys())
            collection.delete(stale)
            if collection.made_by != self._embedder:
                collection.made_by = self._embedder
            self._synced = (state[0], collection.revision)
            return added, len(stale)

    def rebuild(self) -> None:
        """Clear the vector store and write all vectors again."""
        with self._lock:
            collection = self._open()
            collection.made_by = None
            collection.clear()
            self._synced = None
        self.sync()

    def sync_in_background(self) -> None:
        """Start `sync` in a daemon thread. A failure is logged, since searches do not need the vector store."""
        if not self._lock.locked():
            threading.Thread(target=self._try, name="knackbox-vectors", daemon=True).start()

    def _try(self) -> None:
        try:
            self.sync()
        except (ConfigError, StoreBusy, OSError) as error:
            log.warning(
                "The vectors could not be copied to the vector store; searches work without it, and the next change "
                "tries again: %s",
                error,
            )
