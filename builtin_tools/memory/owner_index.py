"""`OwnerIndex`: the search index of one owner, kept up to date with the store.

It records the last change to the owner's entries that was added to it. Erasing takes a lock for each owner, so no
process can write erased entries back to the index.

If a sentence encoder is configured, its vectors are added afterwards, a few at a time. Until all are there, searches do
without them.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import START, Place
from engine.stores.backups import GENERATIONS_AHEAD
from engine.stores.locks import FileLock, StoreBusy

if TYPE_CHECKING:
    from engine.retrieval.passage_encoder import PassageEncoder
    from engine.stores.embedder import Embedder

BATCH = 500  # maximum changes in one transaction
ENCODED_AT_ONCE = 32  # entries that are encoded together, which takes about a third of a second
ENCODED_IN_SEARCH = 8  # maximum entries whose vectors a search waits for
MARKER = "encoder"  # exists in the folder of the indexes if one of them may have vectors of an encoder
_OTHERS_S = 0.5  # how long a search waits for another thread or process that is encoding
_PLACE, _GENERATION = "place", "generation"  # keys of values that an index stores

Progress = Callable[[int, int], None]  # called with the number of finished entries and the total


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
        state = self.index.encoding()
        if state.encoder != self.encoder:
            usable = not state.encoder or replace
            return None if usable and self._use_encoder(self.encoder) else False
        with self._batch:
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
