"""Changes the tables of a `PassageIndex` in a transaction: numbered texts, slots, and rows of columns and vectors.

A slot is the number of a passage. A chunk is a range of slots whose columns and vectors share a row.
Changes are collected and written at the end, so that each row is written only once.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import read_meta, select_in
from engine.retrieval.passage_arrays import COLUMNS, ROW_SLOTS, Bytes


class NumberedTexts:
    """A table that assigns a number to each text that passages use. Numbers are never reused."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        self._change: Counter[int] = Counter()

    def numbers(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the number of each text, after inserting new texts. `hold` must then be called for the new ones."""
        wanted = set(texts)
        query = f"SELECT text, number FROM {self._table} WHERE text"  # noqa: S608 - the name of a table
        known: dict[str, int] = dict(select_in(self._connection, query, wanted))
        new = sorted(wanted - known.keys())
        if new:
            key = f"{self._table}_used"
            first = int(read_meta(self._connection, key) or 0)
            known |= {text: first + at for at, text in enumerate(new)}
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(first + len(new))))
            insert = f"INSERT INTO {self._table} (number, text, holders) VALUES (?, ?, 0)"  # noqa: S608 - the name of a table
            self._connection.executemany(insert, [(known[text], text) for text in new])
        return known

    def hold(self, numbers: Iterable[int]) -> None:
        """Count one more passage that uses each of these numbers."""
        self._change.update(numbers)

    def release(self, numbers: Iterable[int]) -> None:
        """Count one passage fewer that uses each of these numbers."""
        self._change.subtract(numbers)

    def store(self) -> None:
        """Write how many passages use each text, and delete texts that no passage uses any longer."""
        rows = [(change, number) for number, change in self._change.items() if change]
        update = f"UPDATE {self._table} SET holders = holders + ? WHERE number = ?"  # noqa: S608 - the name of a table
        self._connection.executemany(update, rows)
        fewer = [(number,) for change, number in rows if change < 0]
        delete = f"DELETE FROM {self._table} WHERE number = ? AND holders <= 0"  # noqa: S608 - the name of a table
        self._connection.executemany(delete, fewer)


class Slots:
    """Assigns slots (numbers) to new passages: first the slots of removed passages, then new slots at the end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._next = connection.execute("SELECT coalesce(max(slot), -1) + 1 FROM passages").fetchone()[0]
        last_free = connection.execute("SELECT coalesce(max(slot), -1) + 1 FROM free").fetchone()[0]
        self._next = max(self._next, last_free)
        self._any_free = bool(last_free)

    def take(self) -> int:
        """Return a free slot, and mark it as used."""
        if self._any_free:
            row = self._connection.execute("SELECT min(slot) FROM free").fetchone()
            if row[0] is not None:
                self._connection.execute("DELETE FROM free WHERE slot = ?", row)
                return int(row[0])
            self._any_free = False
        self._next += 1
        return int(self._next - 1)

    def give_back(self, slot: int) -> None:
        """Mark the slot of a removed passage as free."""
        self._connection.execute("INSERT INTO free VALUES (?)", (slot,))


class ChunkRows:
    """Reads and writes the columns and vectors of slots, one chunk at a time. Not thread-safe."""

    def __init__(self, connection: sqlite3.Connection, dimensions: int) -> None:
        self._connection = connection
        self._dimensions = dimensions
        self._chunks: dict[int, tuple[npt.NDArray[np.void], Bytes]] = {}

    def columns(self, slot: int) -> Any:
        """Return the columns of a slot. Assignments to them are written by `store`."""
        return self._chunk(slot)[0][slot % ROW_SLOTS : slot % ROW_SLOTS + 1]

    def put(self, slot: int, vector: Bytes) -> None:
        """Set the vector of a slot."""
        self._chunk(slot)[1][slot % ROW_SLOTS] = vector

    def clear(self, slot: int) -> None:
        """Overwrite the columns and the vector of a slot with zeros."""
        columns, vectors = self._chunk(slot)
        columns[slot % ROW_SLOTS] = np.zeros((), dtype=COLUMNS)
        vectors[slot % ROW_SLOTS] = 0

    def store(self, epoch: int) -> None:
        """Write all rows that were read or changed, marked with this epoch (the number of the transaction)."""
        rows = [
            (chunk, epoch, columns.tobytes(), vectors.tobytes()) for chunk, (columns, vectors) in self._chunks.items()
        ]
        self._connection.executemany("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?)", rows)

    def _chunk(self, slot: int) -> tuple[npt.NDArray[np.void], Bytes]:
        chunk = slot // ROW_SLOTS
        if chunk not in self._chunks:
            query = "SELECT columns, vectors FROM chunks WHERE chunk = ?"
            found = self._connection.execute(query, (chunk,)).fetchone()
            if found is None:
                columns = np.zeros(ROW_SLOTS, dtype=COLUMNS)
                vectors = np.zeros((ROW_SLOTS, self._dimensions), dtype=np.int8)
            else:
                columns = np.frombuffer(found[0], dtype=COLUMNS).copy()
                vectors = np.frombuffer(found[1], dtype=np.int8).reshape(ROW_SLOTS, -1).copy()
            self._chunks[chunk] = (columns, vectors)
        return self._chunks[chunk]
