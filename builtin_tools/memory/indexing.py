"""`MemoryIndexes`: one search index for each owner.

Before each search, newer changes are added to the index, no matter which process made them. Many changes, and many
missing vectors of a sentence encoder, are added in the background.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.memory.encoder import EncoderLoader
from builtin_tools.memory.owner_index import OwnerIndex
from builtin_tools.memory.store import MemoryStore
from engine.retrieval.passage import FoundPassage, PassageFilter

if TYPE_CHECKING:
    from engine.retrieval.passage_encoding import EncodingState
    from engine.stores.embedder import Embedder

AT_ONCE = 2_000  # maximum changes that a search waits for; the rest are indexed in the background
MOST_OPEN = 32  # maximum open indexes


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
