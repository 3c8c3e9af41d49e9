"""`CandidateRows`: a cache of the stored data of documents that were candidates in recent searches."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from engine.retrieval.index_file import select_in

MOST_ROWS = 2_000  # about 2 KB each; ten times as much for a document with 32 requests


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """The stored data of one document. The arrays are encoded as in the index file.

    Attributes:
        head: The number of words in the document's name and description.
        words: The ids of the document's words, as uint32.
        vectors: The positions of the document's vectors in the index, as uint32.
        hashed: The hashed words of the document's texts (`packed`).
    """

    id: str
    head: int
    words: bytes
    vectors: bytes
    hashed: bytes


class CandidateRows:
    """Caches rows by slot (document number). Not thread-safe; `StoredIndex` holds a lock while it uses the cache."""

    def __init__(self) -> None:
        self._known: dict[int, CandidateRow] = {}

    def clear(self) -> None:
        """Discard everything, because the index has changed."""
        self._known.clear()

    def of(self, connection: sqlite3.Connection, slots: Collection[int]) -> dict[int, CandidateRow]:
        """Return the rows of the documents with these slot numbers. Slots without a document are omitted."""
        missing = [slot for slot in slots if slot not in self._known]
        if len(self._known) + len(missing) > MOST_ROWS:
            self.clear()
            missing = list(slots)
        query = "SELECT slot, id, head, words, vectors, hashed FROM documents WHERE slot"
        for slot, *row in select_in(connection, query, missing):
            self._known[slot] = CandidateRow(*row)
        return {slot: self._known[slot] for slot in slots if slot in self._known}
