"""Reads the vectors of an encoder from the index of one user, and computes those that it should have."""

import sqlite3
from pathlib import Path

import numpy as np

from engine.retrieval.passage_arrays import to_bytes
from engine.retrieval.passage_text import embedded_text
from tests.builtin_tools.memory.conftest import MemoryHome
from tests.retrieval.topic_encoder import topic_encoder

OWNER = "user:ada"
ENCODER = topic_encoder()


def file_of(home: MemoryHome) -> Path:
    return home.indexes.path(OWNER)


def stored_vectors(home: MemoryHome) -> dict[str, bytes]:
    """Return the vector of each entry in the file, read independently of the code under test."""
    connection = sqlite3.connect(file_of(home))
    try:
        chunks = {
            chunk: np.frombuffer(data, np.int8).reshape(256, -1)
            for chunk, data in connection.execute("SELECT chunk, vectors FROM encoded")
        }
        rows = connection.execute("SELECT id, slot FROM passages").fetchall()
        return {id_: chunks[slot // 256][slot % 256].tobytes() for id_, slot in rows}
    finally:
        connection.close()


def right_vectors(home: MemoryHome) -> dict[str, bytes]:
    """Return the vectors that the entries should have."""
    with home.store.reading() as memory:
        entries = memory.entries([OWNER])
    made = to_bytes(ENCODER.embedder.embed([embedded_text(each.passage()) for each in entries]))
    return {each.id: vector.tobytes() for each, vector in zip(entries, made, strict=True)}
