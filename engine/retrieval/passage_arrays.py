"""`PassageArrays`: the data that a `PassageIndex` keeps in memory, as arrays indexed by slot (passage number).

For half a million passages, the arrays take 128 MB for vectors in bytes, 16 MB for codes with one bit for each
dimension, and 24 MB for columns (time, group and so on). Only what other processes changed since the last
use is read again.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import select_in
from engine.retrieval.passage import PassageFilter
from engine.stores.embedder import Vectors

ROW_SLOTS = 256  # slots whose columns and vectors share a row of the file; a change rewrites a whole row
NONE = 0xFFFFFFFF  # stands for a missing neighbour
COLUMNS = np.dtype(
    [
        ("time", np.float64),
        ("valid_from", np.float64),
        ("valid_to", np.float64),
        ("kind", np.uint32),
        ("space", np.uint32),
        ("group", np.uint32),
        ("position", np.int32),
        ("before", np.uint32),
        ("after", np.uint32),
        ("length", np.uint16),
        ("asks", np.uint8),
        ("used", np.uint8),
    ]
)
_LARGEST = 127
_BITS = 64
_BITS_IN_BYTE = 256  # up to this many signs, one byte holds the similarity
_GROWTH = 16  # arrays get a sixteenth more room than needed, so that they are seldom copied

Bytes = npt.NDArray[np.int8]
Codes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]
Columns = Mapping[str, npt.NDArray[Any]]


def to_bytes(vectors: Vectors) -> Bytes:
    """Encode vectors with one byte for each dimension. Their lengths are lost, their directions are kept."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    found: Bytes = np.rint(vectors / np.where(largest > 0, largest, 1) * _LARGEST).astype(np.int8)
    return found


def unit(rows: Bytes) -> Vectors:
    """Decode vectors that `to_bytes` encoded, as unit vectors; zeros for rows of zeros."""
    floats = rows.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    found: Vectors = floats / np.maximum(lengths, 1)[:, np.newaxis]
    return found


def cosines(rows: Bytes, vector: Vectors) -> Vectors:
    """Return the cosine of each row and a unit vector; 0 for rows of zeros."""
    floats = rows.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    found: Vectors = floats @ vector / np.maximum(lengths, 1)
    return found


def bit_codes(vectors: npt.NDArray[Any]) -> Codes:
    """Return the sign bits of vectors: 1 if a dimension is positive. Shape (dimensions / 64, vectors)."""
    packed = np.packbits(vectors > 0, axis=1)
    width = -(-packed.shape[1] // 8) * 8
    padded = np.zeros((len(packed), width), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    found: Codes = padded.view(np.uint64).T
    return found


class CodedVectors:
    """Vectors of one embedder by slot. Not thread-safe.

    They are read from a table with the columns chunk (a range of slots), epoch (which transaction wrote it) and
    vectors.
    """

    def __init__(self, table: str, dimensions: int) -> None:
        self._table = table
        self._dimensions = dimensions
        self.rows: Bytes = np.zeros((0, dimensions), dtype=np.int8)
        self.codes: Codes = bit_codes(self.rows)

    def forget(self) -> None:
        """Discard everything read from the file."""
        self.rows, self.codes = self.rows[:0], self.codes[:, :0]

    def resize(self, slots: int) -> None:
        """Make room for this number of slots."""
        self.rows = _grown(self.rows, slots)
        self.codes = np.stack([_grown(row, slots) for row in self.codes])

    def catch_up(self, connection: sqlite3.Connection, epoch: int) -> None:
        """Read the vectors that were written after an epoch, which is a count of transactions."""
        query = f"SELECT chunk, vectors FROM {self._table} WHERE epoch > ?"  # noqa: S608 - the name of a table
        for chunk, data in connection.execute(query, (epoch,)):
            at = slice(chunk * ROW_SLOTS, (chunk + 1) * ROW_SLOTS)
            rows = np.frombuffer(data, dtype=np.int8).reshape(ROW_SLOTS, self._dimensions)
            self.rows[at] = rows
            self.codes[:, at] = bit_codes(rows)

    def nearness(self, vector: Vectors) -> npt.NDArray[np.unsignedinteger]:
        """Return the similarity of each slot's vector to `vector`: a constant minus the number of signs that differ."""
        code = bit_codes(vector[np.newaxis])[:, 0]
        bits = _BITS * len(code)
        near: npt.NDArray[np.unsignedinteger] = (
            np.full(self.codes.shape[1], 255, dtype=np.uint8)  # half as much to read as two bytes
            if bits <= _BITS_IN_BYTE
            else np.full(self.codes.shape[1], bits, dtype=np.uint16)
        )
        for row, bits in zip(self.codes, code, strict=True):
            near -= np.bitwise_count(row ^ bits)
        return near


class PassageArrays:
    """The columns and vectors of all passages. Not thread-safe; `PassageIndex` holds a lock while it uses it."""

    def __init__(self, dimensions: int) -> None:
        self._epoch = -1
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, dtype=COLUMNS[name]) for name in COLUMNS.names or ()
        }
        self.vectors = CodedVectors("chunks", dimensions)

    def __len__(self) -> int:
        return len(self.columns["used"])

    def forget(self) -> None:
        """Discard everything read from the file."""
        self._epoch = -1
        self.columns = {name: column[:0] for name, column in self.columns.items()}
        self.vectors.forget()

    def catch_up(self, connection: sqlite3.Connection, epoch: int) -> bool:
        """Read what was written since the last use.

        Args:
            epoch: The file's current epoch, which is a count of transactions.

        Returns:
            Whether anything was read.
        """
        if epoch == self._epoch:
            return False
        last = connection.execute("SELECT coalesce(max(chunk), -1) FROM chunks").fetchone()[0]
        slots = (int(last) + 1) * ROW_SLOTS
        self.columns = {name: _grown(column, slots) for name, column in self.columns.items()}
        self.vectors.resize(slots)
        for chunk, data in connection.execute("SELECT chunk, columns FROM chunks WHERE epoch > ?", (self._epoch,)):
            rows = np.frombuffer(data, dtype=COLUMNS)
            for name, column in self.columns.items():
                column[chunk * ROW_SLOTS : (chunk + 1) * ROW_SLOTS] = rows[name]
        self.vectors.catch_up(connection, self._epoch)
        self._epoch = epoch
        return True

    def allowed(self, connection: sqlite3.Connection, where: PassageFilter) -> Mask:
        """Return a mask of the slots whose passages a filter allows."""
        mask: Mask = self.columns["used"] != 0
        for name, wanted in (("kind", where.kinds), ("space", where.spaces), ("group", where.groups)):
            if wanted is not None:
                query = "SELECT number FROM names WHERE text"
                numbers = [number for (number,) in select_in(connection, query, set(wanted))]
                mask &= np.isin(self.columns[name], numbers)
        if where.since is not None:
            mask &= self.columns["time"] >= where.since
        if where.until is not None:
            mask &= self.columns["time"] < where.until
        if where.as_of is not None:
            mask &= (self.columns["valid_from"] <= where.as_of) & (where.as_of < self.columns["valid_to"])
        return mask


def _grown(array: npt.NDArray[Any], slots: int) -> npt.NDArray[Any]:
    if len(array) >= slots:
        return array
    room = -(-(slots + slots // _GROWTH) // ROW_SLOTS) * ROW_SLOTS
    grown = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
