"""`VectorMirror`: keeps the vectors of a `StoredIndex` in a store of vectors, such as Chroma, beside the searches.

Searches compare a request with the index's own copy of the vectors, so no search opens the store of vectors: one that
is locked, slow or damaged holds up nothing and hides nothing. It is written here, in a thread that nobody waits for.
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
    """Threads may share it."""

    def __init__(self, index: StoredIndex, collection: Callable[[], VectorIndex], embedder: str) -> None:
        """collection: opens the store of vectors, which takes seconds. embedder: the name of what made the vectors."""
        self._index = index
        self._open = collection
        self._embedder = embedder
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._synced: tuple[str, int] | None = None

    def stop(self) -> None:
        """Make `sync` return after the batch it is at."""
        self._stopped.set()

    def sync(self) -> tuple[int, int]:
        """Write the vectors that are missing and delete those of nobody; how many of each.

        Raises ConfigError, StoreBusy when the store of vectors cannot be used.
        """
        with self._lock:
            collection = self._open()
            state = (self._index.note("epoch"), collection.revision)
            if state == self._synced:
                return 0, 0
            wanted, present = self._index.vector_names(), collection.ids()
            missing = {name: document for name, document in wanted.items() if name not in present}
            if missing:
                collection.made_by = None  # a part is not the whole, whoever asks after a kill
            added = 0
            documents = list(dict.fromkeys(missing.values()))
            for start in range(0, len(documents), BATCH):
                if self._stopped.is_set():
                    return added, 0
                names, vectors = self._index.vectors_of(documents[start : start + BATCH])
                collection.upsert(names, vectors)
                added += len(names)
            left_over = sorted(present - wanted.keys())
            collection.delete(left_over)
            if collection.made_by != self._embedder:
                collection.made_by = self._embedder
            self._synced = (state[0], collection.revision)
            return added, len(left_over)

    def rebuild(self) -> None:
        """Make the store of vectors anew."""
        with self._lock:
            collection = self._open()
            collection.made_by = None
            collection.clear()
            self._synced = None
        self.sync()

    def sync_in_background(self) -> None:
        """Start `sync` in a thread that does not keep the process from ending; a failure is only logged."""
        if not self._lock.locked():
            threading.Thread(target=self._try, name="knackbox-vectors", daemon=True).start()

    def _try(self) -> None:
        try:
            self.sync()
        except (ConfigError, StoreBusy, OSError) as error:
            log.warning("The vectors could not be written yet; searches do not need them: %s", error)
