"""`VectorStore`: collections of vectors on disk in Chroma's embedded mode, shared by processes.

Chroma's client does not notice writes by other processes, and two writers can damage an index. Therefore writers
hold a file lock exclusively, and readers share it. Generation counters in the records (``"vectors"`` for the folder,
``"vectors:<collection>"`` for a collection) show when a client must be reopened before it reads or writes.

The folder can always be rebuilt from the documents. If it is damaged, it is moved away and an empty one is created.
`VectorCollection.revision` then changes, so that the code that fills the collection adds the missing vectors.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from engine.contract.failure import ConfigError
from engine.stores.chroma import ChromaClient, ChromaDamaged
from engine.stores.collection_notes import CollectionNotes
from engine.stores.embedder import Vectors
from engine.stores.locks import FileLock
from engine.stores.records import Records

T = TypeVar("T")

FOLDER_GENERATION = "vectors"
log = logging.getLogger(__name__)


class VectorIndex(Protocol):
    """A searchable set of named unit vectors. `VectorCollection` stores them on disk."""

    @property
    def revision(self) -> int:
        """A number that increases when any process writes and when content is lost. Reading it is fast."""
        ...

    @property
    def made_by(self) -> str | None:
        """The name of the embedder that made all vectors; None if unknown or during a rebuild."""
        ...

    @made_by.setter
    def made_by(self, embedder: str | None) -> None: ...

    def upsert(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Add or replace vectors.

        Args:
            vectors: float32 of shape (len(ids), dimensions).
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors. Unknown ids are ignored."""
        ...

    def query(self, vector: Vectors, k: int) -> list[tuple[str, float]]:
        """Return the ids of the k nearest vectors, each with its cosine similarity (-1 to 1), best first.

        Args:
            vector: Shape (dimensions,).
        """
        ...

    def ids(self, among: Sequence[str] | None = None) -> set[str]:
        """Return all ids, or those of `among` that exist."""
        ...

    def count(self) -> int: ...

    def clear(self) -> None:
        """Remove all vectors."""
        ...


class VectorStore:
    """The vector collections in one folder, shared by threads and processes. Call `close` once.

    Writes increment generations in the records, so do not write inside a transaction on the records.
    """

    def __init__(self, path: Path, records: Records) -> None:
        """Create the object without accessing the folder.

        The first use creates the folder and loads Chroma, which takes about 2 s.
        """
        self._path = path
        self._records = records
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._mutex = threading.RLock()
        self._client: ChromaClient | None = None
        self._seen: dict[str, int] = {}
        self._dimensions: dict[str, int] = {}
        self.notes = CollectionNotes(records)

    def collection(self, name: str, dimensions: int) -> "VectorCollection":
        """Return the collection with this name, which is created on first use.

        Raises:
            ValueError: The collection was requested with other dimensions before.
        """
        known = self._dimensions.setdefault(name, dimensions)
        if known != dimensions:
            raise ValueError(f"The collection {name!r} holds vectors with {known} dimensions, not {dimensions}.")
        return VectorCollection(self, name, dimensions)

    def close(self) -> None:
        """Close Chroma. A later use opens it again. Closing twice has no effect."""
        with self._mutex:
            self._drop_client()

    def revision(self, name: str) -> int:
        """Return the `VectorIndex.revision` of a collection."""
        return self._records.generation(FOLDER_GENERATION) + self._records.generation(_generation(name))

    def reading(self, name: str, action: Callable[[ChromaClient], T]) -> T:
        """Run `action` with an up-to-date client. No process can write in the meantime."""
        return self._run(name, action, self._lock.shared)

    def writing(self, name: str, action: Callable[[ChromaClient], None]) -> None:
        """Run `action` while no other process can read or write. Afterwards, other processes reopen their clients."""

        def act(client: ChromaClient) -> None:
            # Done before the write, so that others reopen their clients even if this process is killed while it writes.
            self._seen[_generation(name)] = self._records.bump(_generation(name))
            action(client)
            client.flush(name)

        self._run(name, act, self._lock.exclusive)

    def _run(
        self, name: str, action: Callable[[ChromaClient], T], lock: Callable[[], AbstractContextManager[None]]
    ) -> T:
        with self._mutex:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return self._attempt(name, action, lock)
            except ChromaDamaged as damage:
                self._set_aside(damage)
            try:
                return self._attempt(name, action, lock)
            except ChromaDamaged as again:
                raise ConfigError(
                    f"{self._path}: Chroma fails even in a new folder ({again}). Check the disk, or reinstall chromadb."
                ) from again

    def _attempt(
        self, name: str, action: Callable[[ChromaClient], T], lock: Callable[[], AbstractContextManager[None]]
    ) -> T:
        while True:
            with lock():
                if self._client is not None and self._client.has(name) and not self._stale():
                    return action(self._client)
            with self._lock.exclusive():
                self._reopen()

    def _stale(self) -> bool:
        if self._client is not None and not self._client.in_place:
            return True
        return any(self._records.generation(name) != value for name, value in self._seen.items())

    def _reopen(self) -> None:
        """Reopen Chroma. The caller must hold the lock exclusively, because Chroma writes when it is opened."""
        removed = self._client is not None and not self._client.in_place
        self._drop_client()
        watched = [FOLDER_GENERATION, *(_generation(name) for name in self._dimensions)]
        self._seen = {name: self._records.generation(name) for name in watched}
        client = ChromaClient.open(self._path)
        self._client = client
        if removed and self._records.generation(FOLDER_GENERATION) == self._seen[FOLDER_GENERATION]:
            log.warning("%s: the vectors were removed and are being rebuilt from the documents.", self._path)
            self._seen[FOLDER_GENERATION] = self._records.bump(FOLDER_GENERATION)
        for name, dimensions in self._dimensions.items():
            if not client.prepare(name, dimensions):
                log.warning("%s: the collection %s had another embedder's vectors; rebuilding it.", self._path, name)
                self._seen[FOLDER_GENERATION] = self._records.bump(FOLDER_GENERATION)

    def _set_aside(self, damage: ChromaDamaged) -> None:
        """Move the damaged folder away, unless another process has done so."""
        with self._lock.exclusive():
            self._drop_client()
            if self._records.generation(FOLDER_GENERATION) != self._seen[FOLDER_GENERATION]:
                return  # another process has moved it
            target = _free_name(self._path)
            try:
                self._path.rename(target)
            except OSError as error:
                raise ConfigError(
                    f"{self._path}: the vectors are damaged ({damage}) and cannot be moved away ({error.strerror}). "
                    "Move the folder yourself and try again."
                ) from error
            self._records.bump(FOLDER_GENERATION)
        log.warning(
            "%s: the vectors are damaged (%s). The folder was moved to %s and is being rebuilt from the documents.",
            self._path,
            damage,
            target.name,
        )

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class VectorCollection:
    """A `VectorIndex` on disk, shared by processes. Get one from `VectorStore.collection`."""

    def __init__(self, store: VectorStore, name: str, dimensions: int) -> None:
        self._store = store
        self._name = name
        self._dimensions = dimensions

    @property
    def revision(self) -> int:
        """See `VectorIndex.revision`."""
        return self._store.revision(self._name)

    @property
    def made_by(self) -> str | None:
        """See `VectorIndex.made_by`. All processes share the value."""
        return self._store.notes.made_by(self._name)

    @made_by.setter
    def made_by(self, embedder: str | None) -> None:
        self._store.notes.note(self._name, embedder)

    def upsert(self, ids: Sequence[str], vectors: Vectors) -> None:
        """See `VectorIndex.upsert`.

        Raises:
            ValueError: The vectors have the wrong shape, or an id occurs twice.
        """
        wanted = (len(ids), self._dimensions)
        if vectors.shape != wanted:
            raise ValueError(f"{self._name}: vectors of shape {wanted} are needed, not {vectors.shape}.")
        if len(set(ids)) != len(ids):
            raise ValueError(f"{self._name}: an id occurs twice.")
        if ids:
            self._store.writing(self._name, lambda client: client.upsert(self._name, ids, vectors))

    def delete(self, ids: Sequence[str]) -> None:
        """See `VectorIndex.delete`."""
        if ids:
            self._store.writing(self._name, lambda client: client.delete(self._name, ids))

    def query(self, vector: Vectors, k: int) -> list[tuple[str, float]]:
        """See `VectorIndex.query`."""
        return self._store.reading(self._name, lambda client: client.query(self._name, vector, k))

    def ids(self, among: Sequence[str] | None = None) -> set[str]:
        """See `VectorIndex.ids`."""
        return self._store.reading(self._name, lambda client: client.ids(self._name, among))

    def count(self) -> int:
        """Return the number of vectors."""
        return self._store.reading(self._name, lambda client: client.count(self._name))

    def clear(self) -> None:
        """See `VectorIndex.clear`."""
        self._store.writing(self._name, lambda client: client.delete(self._name, sorted(client.ids(self._name))))


def _generation(collection: str) -> str:
    return f"vectors:{collection}"


def _free_name(path: Path) -> Path:
    return next(
        candidate
        for number in itertools.count(1)
        if not (candidate := path.with_name(f"{path.name}.damaged-{number}")).exists()
    )
