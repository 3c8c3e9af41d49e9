"""Vectors of a sentence encoder in the file of a `PassageIndex`, beside its words and the vectors of its embedder.

A sentence encoder takes milliseconds for each passage. Therefore passages are written without its vectors, which are
added later. The table `unencoded` lists the slots whose vectors are missing, each with the transaction that wrote the
passage, so that the vector of a passage that was replaced meanwhile is not stored. Searches use the encoder once
nothing is missing: cosines of different models cannot be compared.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.retrieval.index_file import read_meta
from engine.retrieval.passage_arrays import ROW_SLOTS, Bytes, CodedVectors
from engine.retrieval.passage_encoder import PassageEncoder

TABLES = """
CREATE TABLE encoded (chunk INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, vectors BLOB NOT NULL);
CREATE INDEX encoded_by_epoch ON encoded (epoch);
CREATE TABLE unencoded (slot INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);
"""
_ENCODER = "encoder"  # the key in `meta` of the encoder whose vectors the file has


@dataclass(frozen=True, slots=True)
class UnencodedPassage:
    """A passage without a vector of the encoder.

    Attributes:
        epoch: The transaction that wrote the passage.
    """

    id: str
    slot: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EncodingState:
    """How far the vectors of an encoder are.

    Attributes:
        encoder: The identity of the encoder whose vectors the file has; "" if it has none.
        encoded: The number of passages with a vector.
        passages: The number of all passages.
    """

    encoder: str = ""
    encoded: int = 0
    passages: int = 0

    def complete_for(self, identity: str) -> bool:
        """Return whether all passages have a vector of this encoder."""
        return self.encoder == identity and self.encoded == self.passages


def added_up(states: Iterable[tuple[str, EncodingState]]) -> EncodingState:
    """Return the state of several files together.

    Args:
        states: The state of each file, with the identity of the encoder that it should have the vectors of.
    """
    total = EncodingState()
    for identity, state in states:
        encoded = state.encoded if state.encoder == identity else 0
        total = EncodingState(identity, total.encoded + encoded, total.passages + state.passages)
    return total


def read_state(connection: sqlite3.Connection) -> EncodingState:
    """Return the state of the vectors in the file of an index."""
    passages, encoder = int(read_meta(connection, "passages") or 0), read_meta(connection, _ENCODER)
    if not encoder:
        return EncodingState("", 0, passages)
    missing = connection.execute("SELECT count(*) FROM unencoded").fetchone()[0]
    return EncodingState(encoder, passages - int(missing), passages)


def state_of_file(path: Path) -> EncodingState:
    """Return the state of the vectors in a file, without changing it. A file that cannot be read has none."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            return read_state(connection)
    except sqlite3.Error:
        return EncodingState()


class EncodedRows:
    """Changes the vectors of an encoder within a transaction. Not thread-safe."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._used = bool(read_meta(connection, _ENCODER))
        self._chunks: dict[int, Bytes | None] = {}

    def replace_encoder(self, identity: str) -> None:
        """Delete all vectors. From now on the file has those of this encoder; none if the identity is empty."""
        self._connection.execute("DELETE FROM encoded")
        self._connection.execute("DELETE FROM unencoded")
        if identity:
            epoch = int(read_meta(self._connection, "epoch") or 0)
            self._connection.execute("INSERT INTO unencoded SELECT slot, ? FROM passages", (epoch,))
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_ENCODER, identity))
        self._used, self._chunks = bool(identity), {}

    def clear(self, slot: int) -> None:
        """Overwrite the vector of a slot with zeros, because its passage was removed or replaced."""
        if self._used:
            self._connection.execute("DELETE FROM unencoded WHERE slot = ?", (slot,))
            vectors = self._chunk(slot // ROW_SLOTS)
            if vectors is not None:
                vectors[slot % ROW_SLOTS] = 0

    def miss(self, slot: int, epoch: int) -> None:
        """Note that a passage has no vector yet. `epoch` is the number of this transaction."""
        if self._used:
            self._connection.execute("INSERT OR REPLACE INTO unencoded VALUES (?, ?)", (slot, epoch))

    def put(self, found: Mapping[UnencodedPassage, Bytes], dimensions: int) -> None:
        """Store the vectors of passages, except of those that were removed or replaced meanwhile."""
        for passage, vector in found.items():
            place = (passage.slot, passage.epoch)
            if self._connection.execute("DELETE FROM unencoded WHERE slot = ? AND epoch = ?", place).rowcount:
                chunk = passage.slot // ROW_SLOTS
                vectors = self._chunk(chunk)
                if vectors is None:
                    vectors = self._chunks[chunk] = np.zeros((ROW_SLOTS, dimensions), dtype=np.int8)
                vectors[passage.slot % ROW_SLOTS] = vector

    def store(self, epoch: int) -> None:
        """Write all rows that were read or changed, marked with this epoch (the number of the transaction)."""
        rows = [(chunk, epoch, vectors.tobytes()) for chunk, vectors in self._chunks.items() if vectors is not None]
        self._connection.executemany("INSERT OR REPLACE INTO encoded VALUES (?, ?, ?)", rows)

    def _chunk(self, chunk: int) -> Bytes | None:
        if chunk not in self._chunks:
            found = self._connection.execute("SELECT vectors FROM encoded WHERE chunk = ?", (chunk,)).fetchone()
            rows = None if found is None else np.frombuffer(found[0], dtype=np.int8).reshape(ROW_SLOTS, -1).copy()
            self._chunks[chunk] = rows
        return self._chunks[chunk]


class PassageVectors:
    """Keeps the vectors of an encoder in memory, once the file has all of them. Not thread-safe.

    Attributes:
        used: Whether the last search found no vector missing. It may be read by any thread.
    """

    def __init__(self, encoder: PassageEncoder) -> None:
        self.encoder = encoder
        self.vectors = CodedVectors("encoded", encoder.embedder.dimensions)
        self.used = False
        self._epoch = -1

    def forget(self) -> None:
        """Discard everything read from the file."""
        self._epoch = -1
        self.vectors.forget()

    def catch_up(self, connection: sqlite3.Connection, epoch: int, slots: int) -> bool:
        """Read what was written since the last use.

        Args:
            epoch: The file's current epoch, which is a count of transactions.
            slots: The number of slots of the index.

        Returns:
            Whether every passage has a vector of this encoder. If not, nothing is read.
        """
        missing = connection.execute("SELECT 1 FROM unencoded LIMIT 1").fetchone()
        self.used = missing is None and read_meta(connection, _ENCODER) == self.encoder.identity
        if self.used and epoch != self._epoch:
            self.vectors.resize(slots)
            self.vectors.catch_up(connection, self._epoch)
            self._epoch = epoch
        return self.used


def unencoded(connection: sqlite3.Connection, most: int) -> list[UnencodedPassage]:
    """Return up to `most` passages that have no vector yet."""
    query = "SELECT id, slot, epoch FROM unencoded JOIN passages USING (slot) ORDER BY slot LIMIT ?"
    return [UnencodedPassage(*row) for row in connection.execute(query, (most,))]


def write_vectors(
    connection: sqlite3.Connection, vectors: Mapping[UnencodedPassage, Bytes], encoder: PassageEncoder
) -> None:
    """Store the vectors of passages within the connection's transaction.

    Passages that were removed or replaced meanwhile are left out; all, if the file now has those of another encoder.
    """
    if read_meta(connection, _ENCODER) == encoder.identity:
        rows = EncodedRows(connection)
        rows.put(vectors, encoder.embedder.dimensions)
        _store(connection, rows)


def replace_encoder(connection: sqlite3.Connection, identity: str) -> None:
    """Delete all vectors, and make the file one for this encoder, within the connection's transaction.

    Args:
        identity: The identity of the encoder; "" for none.
    """
    rows = EncodedRows(connection)
    rows.replace_encoder(identity)
    _store(connection, rows)


def _store(connection: sqlite3.Connection, rows: EncodedRows) -> None:
    """Write the rows in a new epoch."""
    epoch = int(read_meta(connection, "epoch") or 0) + 1
    rows.store(epoch)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (str(epoch),))
