"""`VectorCache`: stores the vectors of texts in a file, because a transformer takes about 10 ms to compute each.

The file is an SQLite database that all processes of a home share. Everything in it can be computed again, so a damaged
file is replaced by an empty one.
"""

import contextlib
import hashlib
import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from engine.stores.embedder import Vectors

MOST_IN_MEMORY = 20_000  # 15 MB of vectors
_PRIVATE = 0o600
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"

log = logging.getLogger(__name__)


class VectorCache:
    """Stores the vectors of one model by text, in half precision. Thread-safe. The file is opened on first use."""

    def __init__(self, path: Path, model: str) -> None:
        """Create the object.

        Args:
            path: The file.
            model: The name of the embedder. Vectors of other embedders in the same file are ignored.
        """
        self._path = path
        self._model = model
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._known: dict[str, Vectors] = {}

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return the known vectors of these texts. Texts without a known vector are missing from the result."""
        wanted = list(dict.fromkeys(texts))
        with self._lock:
            found = {text: self._known[text] for text in wanted if text in self._known}
            missing = {self._key(text): text for text in wanted if text not in found}
            new = {missing[key]: vector for key, vector in self._read(list(missing))}
            self._remember(new)
            return found | new

    def put(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors by text. If the file cannot be written, they are kept in memory only."""
        rows = [(self._key(text), vector.astype(np.float16).tobytes()) for text, vector in vectors.items()]
        with self._lock:
            self._remember(vectors)
            try:
                self._opened().executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            except (sqlite3.Error, OSError) as error:
                self._failed(error)

    def close(self) -> None:
        """Close the file. A later use opens it again."""
        with self._lock:
            self._close()

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._model}\0{text}".encode()).digest()[:16]

    def _remember(self, vectors: Mapping[str, Vectors]) -> None:
        if len(self._known) + len(vectors) > MOST_IN_MEMORY:
            self._known.clear()
        self._known.update(vectors)

    def _read(self, keys: list[bytes]) -> list[tuple[bytes, Vectors]]:
        rows: list[tuple[bytes, bytes]] = []
        try:
            for key in keys:
                rows += self._opened().execute("SELECT key, vector FROM vectors WHERE key = ?", (key,))
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
        return [(key, np.frombuffer(vector, dtype=np.float16).astype(np.float32)) for key, vector in rows]

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.touch(_PRIVATE)
            connection = sqlite3.connect(self._path, timeout=0.2, isolation_level=None, check_same_thread=False)
            self._connection = connection
            connection.execute("PRAGMA synchronous=OFF")  # everything here can be computed again
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(_TABLE)
        return self._connection

    def _failed(self, error: sqlite3.Error | OSError) -> None:
        """Close the file, and delete it if it is damaged."""
        self._close()
        log.warning("%s: the vectors of sentences cannot be read or written: %s", self._path, error)
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    Path(f"{self._path}{end}").unlink()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
