"""`CandidateRows`: the stored data of documents that recent searches compared with their requests."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from engine.retrieval.index_file import select_in

MOST_ROWS = 2_000  # about 2 KB each; ten times as much for a document with 32 requests


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """What is stored of a document. The arrays are encoded as the index writes them.

    Attributes:
        head: The number of words in its name and description.
        words: The numbers of its words, as uint32.
        vectors: The positions of its vectors, as uint32.
        hashed: The hashed words of its texts (`packed`).
    """

    id: str
    head: int
    words: bytes
    vectors: bytes
    hashed: bytes


class CandidateRows:
    """Caches rows by slot. Not thread-safe; `StoredIndex` holds a lock while it uses it."""

    def __init__(self) -> None:
        self._known: dict[int, CandidateRow] = {}

    def clear(self) -> None:
        """Discard everything, because the index has changed."""
        self._known.clear()

    def of(self, connection: sqlite3.Connection, slots: Collection[int]) -> dict[int, CandidateRow]:
        """Return the rows of the documents in these slots. Slots without a document are missing."""
        missing = [slot for slot in slots if slot not in self._known]
        if len(self._known) + len(missing) > MOST_ROWS:
            self.clear()
            missing = list(slots)
        query = "SELECT slot, id, head, words, vectors, hashed FROM documents WHERE slot"
        for slot, *row in select_in(connection, query, missing):
            self._known[slot] = CandidateRow(*row)
        return {slot: self._known[slot] for slot in slots if slot in self._known}
