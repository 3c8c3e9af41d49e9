"""`Reindexing`: brings the indexes of all owners to the configured encoder, in the background or for a command.

After the setting has changed, the vectors of the new encoder are added to each index a few at a time, and those of the
previous one are deleted. Searches and changes go on meanwhile. What a killed process has done is kept, and the next one
continues. Of several processes, one works on an index at a time; the others wait for it.
"""

import logging
import threading
from dataclasses import dataclass

from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.owner_index import MARKER, Progress
from builtin_tools.memory.store import MemoryStore
from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

DELAY_S = 1.0  # short commands end before the background work begins
_AGAIN_S = 0.5  # until the indexes that another process is working on are looked at again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReindexedMemory:
    """The result of `Reindexing.run`.

    Attributes:
        encoder: The identity of the encoder; "" for none.
    """

    encoder: str
    owners: int
    entries: int


class Reindexing:
    """Re-indexes the memory of a home. Call `close` once, before the indexes are closed."""

    def __init__(self, store: MemoryStore, indexes: MemoryIndexes) -> None:
        self._store = store
        self._indexes = indexes
        self._marker = indexes.folder / MARKER
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def needed(self) -> bool:
        """Whether an index may lack vectors of the configured encoder, or have those of a previous one."""
        return self._indexes.encoder is not None or self._marker.exists()

    def start(self, delay_s: float = DELAY_S) -> None:
        """Re-index in a thread, if something may have to be done."""
        if self.needed and self._thread is None:
            self._thread = threading.Thread(
                target=self._work, args=(delay_s,), name="knackbox-memory-reindex", daemon=True
            )
            self._thread.start()

    def run(self, progress: Progress | None = None) -> ReindexedMemory:
        """Re-index, and return when everything is complete or `close` is called. Blocks.

        Raises:
            ConfigError: The configured encoder cannot be loaded, or an index cannot be stored.
        """
        loader = self._indexes.encoder
        encoder = None if loader is None else loader.get()
        if loader is not None and encoder is None:
            raise ConfigError(f"The memory cannot be re-indexed. {loader.problem}")
        with self._store.reading() as memory:
            entries = {owner: memory.count([owner]) for owner in memory.owners()}
        total = _Finished(entries, progress)
        waiting = list(entries)
        while waiting and not self._stop.is_set():
            waiting = [owner for owner in waiting if not self._finish(owner, total)]
            if waiting:
                self._stop.wait(_AGAIN_S)
        if encoder is None and not waiting:
            self._marker.unlink(missing_ok=True)
        return ReindexedMemory("" if encoder is None else encoder.identity, len(entries), sum(entries.values()))

    def close(self) -> None:
        """Stop after the current batch of entries."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _finish(self, owner: str, total: "_Finished") -> bool:
        """Work on the index of an owner. Return whether it is complete."""
        one = self._indexes.of(owner)

        def indexed(_done: int, _of: int) -> None:
            if self._stop.is_set():
                one.stop()

        def encoded(done: int, of: int) -> None:
            total.count(owner, done)
            indexed(done, of)

        complete = one.catch_up(progress=indexed)
        if complete and one.encoder:
            complete = one.encode(encoded, replace=True)
        elif complete and self._marker.exists():
            complete = one.discard_vectors()
        if complete:
            total.count(owner)
        return complete

    def _work(self, delay_s: float) -> None:
        self._stop.wait(delay_s)
        while not self._stop.is_set():
            if not self._outdated():
                return
            try:
                self.run()
            except StoreBusy as error:
                log.warning("The memory could not be re-indexed; this is tried again: %s", error)
                self._stop.wait(_AGAIN_S)
            except ConfigError as error:
                log.warning("%s", error)
                return

    def _outdated(self) -> bool:
        """Return whether an index is incomplete. Loads neither the indexes nor the encoder."""
        from engine.retrieval.passage_encoding import state_of_file  # noqa: PLC0415 -- numpy, not needed at start

        loader = self._indexes.encoder
        with self._store.reading() as memory:
            owners = memory.owners()
        if loader is None:
            return self._marker.exists()
        identity = loader.identity()
        return not all(state_of_file(self._indexes.path(owner)).complete_for(identity) for owner in owners)


class _Finished:
    """Adds up the finished entries of all owners, and passes the sum on."""

    def __init__(self, entries: dict[str, int], progress: Progress | None) -> None:
        self._entries = entries
        self._done = dict.fromkeys(entries, 0)
        self._progress = progress

    def count(self, owner: str, done: int | None = None) -> None:
        """Note how many entries of an owner are finished; all if `done` is None."""
        self._done[owner] = self._entries[owner] if done is None else min(done, self._entries[owner])
        if self._progress is not None:
            self._progress(sum(self._done.values()), sum(self._entries.values()))
