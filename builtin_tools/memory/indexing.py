"""`MemoryIndexes`: one search index for each owner, kept up to date with the store.

Each index records the last change to its owner's entries that was added to the index. Before each search, newer changes
are added to it, no matter which process made them. Erasing takes a lock for each owner, so no process can write erased
entries back to the index.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import START, Place
from engine.retrieval.passage import FoundPassage, PassageFilter
from engine.stores.backups import GENERATIONS_AHEAD
from engine.stores.locks import FileLock

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder

BATCH = 500  # maximum changes in one transaction
AT_ONCE = 2_000  # maximum changes that a search waits for; the rest are indexed in the background
MOST_OPEN = 32  # maximum open indexes
_PLACE, _GENERATION = "place", "generation"  # keys of values that an index stores

Progress = Callable[[int, int], None]  # called with the number of indexed entries and the total


class OwnerIndex:
    """The index of one owner. Thread-safe. Every method blocks."""

    def __init__(self, owner: str, path: Path, store: MemoryStore, embedder: "Embedder") -> None:
        from engine.retrieval.passage_index import PassageIndex  # noqa: PLC0415 -- numpy, which only a search needs

        self.owner = owner
        self.lock = FileLock(path.with_suffix(".lock"))
        self.index: PassageIndex = PassageIndex(path, embedder)
        self._store = store
        self._mutex = threading.Lock()
        self._seen = -1
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make `catch_up` return after its current batch."""
        self._stopped.set()

    def current(self) -> bool:
        """Return whether nothing has changed since the index was last complete. Takes microseconds."""
        return self._store.generation() == self._seen

    def catch_up(self, most: int | None = None, progress: Progress | None = None) -> bool:
        """Index about `most` changed entries, or all if `most` is None. Return whether the index is now complete."""
        if self.current():
            return True
        with self._mutex:
            done, total = 0, 0
            while not self._stopped.is_set():
                with self.lock.exclusive():
                    now = self._store.generation()
                    read = self._index_batch(now)
                    if read is None:
                        return False
                if not read:
                    self._seen = now
                    return True
                done += read
                if progress is not None:
                    total = total or done + self._missing()
                    progress(done, max(done, total))
                if most is not None and done >= most:
                    return not self._missing()
            return False

    def erase(self) -> None:
        """Remove from the index all entries that were removed from the store, leaving none of their bytes in the file.

        The caller must hold `lock`.

        Raises:
            StoreBusy: Other processes used the file for too long.
        """
        while self._index_batch(self._store.generation()):
            pass
        self.index.erase()

    def close(self) -> None:
        self.stop()
        with self._mutex:
            self.index.close()

    def _index_batch(self, generation: int) -> int | None:
        """Index the next changes, and return how many there were; None if the index could not be written."""
        place = self._place(generation)
        with self._store.reading() as memory:
            changes = memory.changed_since(self.owner, place, BATCH)
        if not changes:
            return 0
        passages = {change.place[1]: None if change.entry is None else change.entry.passage() for change in changes}
        notes = {_PLACE: json.dumps(changes[-1].place), _GENERATION: str(generation)}
        return len(changes) if self.index.apply(passages, notes) else None

    def _missing(self) -> int:
        with self._store.reading() as memory:
            return memory.count_changed(self.owner, self._place(self._store.generation()))

    def _place(self, generation: int) -> Place:
        """Return the last change that was added to the index. An index of another database is emptied first."""
        noted = int(self.index.note(_GENERATION) or 0)
        # A restored backup continues with far higher generations, which shows that the index is of another database.
        if noted and not noted <= generation < noted + GENERATIONS_AHEAD:
            self.index.clear()
        found = self.index.note(_PLACE)
        if not found:
            return START
        number, entry_id = json.loads(found)
        return int(number), str(entry_id)


class MemoryIndexes:
    """The indexes of all owners. Thread-safe. Every method blocks."""

    def __init__(self, folder: Path, store: MemoryStore, embedder: "Callable[[], Embedder]") -> None:
        """Create the object. Each index is opened at its first use.

        Args:
            folder: The folder of the index files. File names do not contain owners' names.
            store: The store whose entries are indexed.
            embedder: Returns the embedder. The first call may take a second.
        """
        self._folder = folder
        self._store = store
        self._embedder = embedder
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OwnerIndex] = OrderedDict()
        self._background: dict[str, threading.Thread] = {}

    def search(self, owner: str, query: str, limit: int, where: PassageFilter) -> list[FoundPassage]:
        """Search the entries of one owner, and return those found, best first."""
        return self._caught_up(owner).index.search(query, limit, where)

    def similar(self, owner: str, text: str, limit: int, where: PassageFilter) -> list[tuple[str, float]]:
        """Return the ids of the owner's entries that are most similar to a text, each with its cosine."""
        return self._caught_up(owner).index.similar(text, limit, where)

    def size(self, owner: str) -> int:
        """Return how many entries of an owner are indexed."""
        return len(self.of(owner).index)

    def of(self, owner: str) -> OwnerIndex:
        """Return the index of an owner. The index may lack recent changes."""
        with self._lock:
            found = self._open.get(owner)
            if found is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = OwnerIndex(owner, self.path(owner), self._store, self._embedder())
                self._open[owner] = found
            self._open.move_to_end(owner)
            unused = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - MOST_OPEN)]
        for each in unused:
            each.close()
        return found

    def drop(self, owner: str) -> None:
        """Delete the index of an owner."""
        one = self.of(owner)
        with one.lock.exclusive():
            one.index.clear()
            one.close()
        with self._lock:
            self._open.pop(owner, None)

    def path(self, owner: str) -> Path:
        """Return the path of an owner's index."""
        return self._folder / f"{hashlib.sha256(owner.encode()).hexdigest()[:32]}.db"

    def close(self) -> None:
        """Stop indexing and close all files. Later calls open them again."""
        with self._lock:
            every, self._open = list(self._open.values()), OrderedDict()
            threads, self._background = list(self._background.values()), {}
        for one in every:
            one.stop()
        for thread in threads:
            thread.join()
        for one in every:
            one.close()

    def _caught_up(self, owner: str) -> OwnerIndex:
        one = self.of(owner)
        if not one.catch_up(AT_ONCE):
            self._continue(one)
        return one

    def _continue(self, one: OwnerIndex) -> None:
        """Index the remaining changes in a thread. Until the thread ends, searches miss some of these changes."""
        with self._lock:
            running = self._background.get(one.owner)
            if running is not None and running.is_alive():
                return
            thread = threading.Thread(target=one.catch_up, name="knackbox-memory-index", daemon=True)
            self._background[one.owner] = thread
            thread.start()
