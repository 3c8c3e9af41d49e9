"""`MemoryIndexes`: one search index for each owner, kept up to date with the store.

Each index records the last change to its owner's entries that was added to the index. Before each search, newer changes
are added to it, no matter which process made them. Erasing takes a lock for each owner, so no process can write erased
entries back to the index.

If a sentence encoder is configured, its vectors are added to an index afterwards: a few at the next search, many in the
background. Until all are there, searches do without them.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.memory.encoder import EncoderLoader
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import START, Place
from engine.retrieval.passage import FoundPassage, PassageFilter
from engine.stores.backups import GENERATIONS_AHEAD
from engine.stores.locks import FileLock, StoreBusy

if TYPE_CHECKING:
    from engine.retrieval.passage_encoding import EncodingState, PassageEncoder
    from engine.stores.embedder import Embedder

BATCH = 500  # maximum changes in one transaction
AT_ONCE = 2_000  # maximum changes that a search waits for; the rest are indexed in the background
MOST_OPEN = 32  # maximum open indexes
ENCODED_AT_ONCE = 32  # entries that are encoded together, which takes about a third of a second
ENCODED_IN_SEARCH = 8  # maximum entries whose vectors a search waits for
_OTHERS_S = 0.5  # how long a search waits for another thread or process that is encoding
MARKER = "encoder"  # exists in the folder of the indexes if one of them may have vectors of an encoder
_PLACE, _GENERATION = "place", "generation"  # keys of values that an index stores

Progress = Callable[[int, int], None]  # called with the number of indexed entries and the total


class OwnerIndex:
    """The index of one owner. Thread-safe. Every method blocks."""

    def __init__(
        self,
        owner: str,
        path: Path,
        store: MemoryStore,
        embedder: "Embedder",
        encoder: "PassageEncoder | None" = None,
    ) -> None:
        from engine.retrieval.passage_index import PassageIndex  # noqa: PLC0415 -- numpy, which only a search needs

        self.owner = owner
        self.lock = FileLock(path.with_suffix(".lock"))
        self.index: PassageIndex = PassageIndex(path, embedder, encoder)
        self.encoder = "" if encoder is None else encoder.identity
        self._encoding = path.with_suffix(".encoding.lock")  # its holder encodes
        self._marker = path.with_name(MARKER)
        self._store = store
        self._mutex = threading.Lock()
        self._batch = threading.Lock()  # held while entries are encoded
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

    def encoded(self) -> bool:
        """Return whether no vector of the encoder is missing. Takes microseconds."""
        return not self.encoder or self.index.encoding().complete_for(self.encoder)

    def encode_few(self) -> bool:
        """Add the missing vectors if they are few. Return whether none is missing."""
        if not self.encoder:
            return True
        state = self.index.encoding()
        few = state.passages - state.encoded <= ENCODED_IN_SEARCH and state.encoder in ("", self.encoder)
        return state.complete_for(self.encoder) or (few and self.encode(patience_s=_OTHERS_S))

    def encode(self, progress: Progress | None = None, *, replace: bool = False, patience_s: float = 0.0) -> bool:
        """Add the missing vectors of the encoder, a few at a time, until `stop` is called.

        Args:
            progress: Called with the numbers of encoded and of all indexed entries.
            replace: Whether to delete the vectors of another encoder first. Otherwise, they are left as they are.
            patience_s: How long to wait for another thread or process that is encoding.

        Returns:
            Whether no vector is missing.
        """
        try:
            with FileLock(self._encoding, patience_s).exclusive():
                while not self._stopped.is_set():
                    done = self._encode_batch(replace=replace)
                    if done is not None:
                        return done
                    if progress is not None:
                        state = self.index.encoding()
                        progress(state.encoded, state.passages)
        except StoreBusy:  # another thread or process is encoding
            pass
        return False

    def discard_vectors(self) -> bool:
        """Delete the vectors of all encoders, leaving none of their bytes. Return False if the index is in use."""
        return self._use_encoder("")

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
        with self._mutex, self._batch:
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

    def _encode_batch(self, *, replace: bool) -> bool | None:
        """Encode the next entries. Return None if there may be more, otherwise whether no vector is missing."""
        with self._batch:
            state = self.index.encoding()
            if state.encoder != self.encoder:
                usable = not state.encoder or replace
                return None if usable and self._use_encoder(self.encoder) else False
            missing = self.index.unencoded(ENCODED_AT_ONCE)
            if not missing:
                return True
            with self._store.reading() as memory:
                entries = memory.get([self.owner], [each.id for each in missing])
            known = {each: entries[each.id].passage() for each in missing if each.id in entries}
            if known:
                return None if self.index.encode(known) else False
        # All of them were removed. The index notices that when it catches up.
        return None if not self.current() and self.catch_up() else False

    def _use_encoder(self, identity: str) -> bool:
        """Delete all vectors, leaving none of their bytes, and note whose vectors will be added."""
        if identity:
            self._marker.touch(mode=0o600)
        try:
            with self.lock.exclusive():
                before = self.index.encoding().encoder
                if not self.index.use_encoder(identity):
                    return False
                if before or not identity:
                    self.index.erase()
        except StoreBusy:
            return False
        return True

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

    def __init__(
        self,
        folder: Path,
        store: MemoryStore,
        embedder: "Callable[[], Embedder]",
        encoder: EncoderLoader | None = None,
    ) -> None:
        """Create the object. Each index is opened at its first use.

        Args:
            folder: The folder of the index files. File names do not contain owners' names.
            store: The store whose entries are indexed.
            embedder: Returns the embedder. The first call may take a second.
            encoder: The configured sentence encoder; None for none.
        """
        self.folder = folder
        self.encoder = encoder
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

    def alike(self, owner: str, text: str, limit: int) -> set[str]:
        """Return the ids of the owner's entries that fit a text by their meaning alone, in a small memory."""
        return self._caught_up(owner).index.alike(text, limit)

    def encoding(self, owners: Collection[str]) -> "EncodingState | None":
        """Return how far the encoder's vectors of these owners are; None if none is missing or there is no encoder."""
        every = [self.of(owner) for owner in owners] if self.encoder is not None else []
        states = [(each.encoder, each.index.encoding()) for each in every if not each.encoded()]
        if not any(state.passages for _, state in states):
            return None
        from engine.retrieval.passage_encoding import added_up  # noqa: PLC0415 -- numpy, which only a search needs

        return added_up(states)

    def size(self, owner: str) -> int:
        """Return how many entries of an owner are indexed."""
        return len(self.of(owner).index)

    def of(self, owner: str) -> OwnerIndex:
        """Return the index of an owner. The index may lack recent changes."""
        with self._lock:
            found = self._open.get(owner)
            if found is None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                encoder = None if self.encoder is None else self.encoder.get()
                found = OwnerIndex(owner, self.path(owner), self._store, self._embedder(), encoder)
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
        return self.folder / f"{hashlib.sha256(owner.encode()).hexdigest()[:32]}.db"

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
        if not (one.catch_up(AT_ONCE) and one.encode_few()):
            self._continue(one)
        return one

    def _continue(self, one: OwnerIndex) -> None:
        """Index the remaining changes in a thread. Until it ends, searches miss some of them, or their vectors."""
        with self._lock:
            running = self._background.get(one.owner)
            if running is not None and running.is_alive():
                return

            def work() -> None:
                if one.catch_up():
                    one.encode()

            thread = threading.Thread(target=work, name="knackbox-memory-index", daemon=True)
            self._background[one.owner] = thread
            thread.start()
