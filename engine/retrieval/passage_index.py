"""`PassageIndex`: finds passages, such as facts and parts of documents, in one file that all processes of a home share.

The file is an SQLite database, like that of a `StoredIndex`, so changes are atomic and immediately visible to all
processes. It has what ranking needs but not the texts. Everything in it can be rebuilt: a damaged file, or one made
with another embedder, is replaced by an empty one.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import ThreadpoolController

from engine.retrieval.bm25 import rarity
from engine.retrieval.index_file import IndexFile, read_meta, select_in
from engine.retrieval.packed_postings import packed_scores
from engine.retrieval.passage import EVERYTHING, FoundPassage, Passage, PassageFilter
from engine.retrieval.passage_arrays import Ints, Mask, PassageArrays, cosines
from engine.retrieval.passage_writer import FORMAT, TABLES, PassageWriter
from engine.retrieval.terms import Terms, weight_of
from engine.stores.embedder import Embedder, Vectors

ERASE_DEADLINE_S = 30.0
NEIGHBOURS = 3  # the distance within which a passage is near another one of its group
NEIGHBOUR = 0.1  # what the score of such a passage is raised by
_PRESELECTED = 4_000  # vectors that are compared exactly, after a comparison of one bit for each dimension


class PassageIndex:
    """A searchable set of passages in a file. Thread-safe. The file is opened at the first use; call `close` once."""

    def __init__(self, path: Path, embedder: Embedder, encoder: Embedder | None = None) -> None:
        """Create an index.

        Args:
            path: The file.
            embedder: Embeds the passages when they are added, and the requests.
            encoder: A slow embedder that improves the order of results.
        """
        made_for = f"{FORMAT}:{embedder.name}:{embedder.dimensions}:{encoder.name if encoder is not None else ''}"
        self._file = IndexFile(path, made_for, TABLES, secure_delete=True)
        self._embedder = embedder
        self._encoder = encoder
        self._terms = Terms()
        self._writer = PassageWriter(embedder, encoder, self._terms)
        self._arrays = PassageArrays(embedder.dimensions)
        self._lock = threading.RLock()
        self._blas = ThreadpoolController()

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(read_meta(connection, "passages") or 0)

    def note(self, key: str) -> str:
        """Return the last note that `apply` stored under this key; "" if there is none."""
        with self._reading() as connection:
            return read_meta(connection, key)

    def ids(self) -> set[str]:
        """Return the ids of all passages."""
        with self._reading() as connection:
            return {id_ for (id_,) in connection.execute("SELECT id FROM passages")}

    def apply(self, changes: Mapping[str, Passage | None], notes: Mapping[str, str]) -> bool:
        """Add, replace and remove passages atomically.

        Args:
            changes: The new passages by id. None removes the passage with that id.
            notes: Values for `note`, stored together with the changes.

        Returns:
            False if nothing was written, because another process is writing or the file was damaged and was replaced.
        """
        with self._lock:
            return self._file.write(lambda connection: self._writer.write(connection, changes, notes))

    def erase(self) -> None:
        """Rewrite the file, so that no byte of removed passages is left in it or in its write-ahead log.

        Raises:
            StoreBusy: Other processes used the file for too long.
        """
        with self._lock:
            self._file.erase_deleted(ERASE_DEADLINE_S)

    def clear(self) -> None:
        """Remove all passages and notes."""
        with self._lock:
            self._file.replace()
            self._arrays.forget()

    def close(self) -> None:
        """Close the file. A later use opens it again."""
        with self._lock:
            self._file.close()
            self._arrays.forget()

    def search(
        self, query: str, k: int, where: PassageFilter = EVERYTHING, *, near: str | None = None
    ) -> list[FoundPassage]:
        """Return the `k` best passages, best first.

        Args:
            query: The request.
            k: The number of results.
            where: What may be returned.
            near: The id of a passage that the request follows up on. Its neighbours rank higher.
        """
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            mask = self._arrays.allowed(connection, where)
            words = self._terms.with_words(query)
            count = int(read_meta(connection, "passages") or 0)
            known = select_in(connection, "SELECT text, number, holders FROM terms WHERE text", words)
            weights = {number: float(rarity(count, n)) * weight_of(term) for term, number, n in known}
            scores = packed_scores(connection, weights, len(self._arrays)) * mask
            slots = np.flatnonzero(mask)
            cosine = cosines(self._arrays.vectors.rows[slots], self._embedder.embed([query])[0])
            total = 0.5 * scores[slots] / (scores.max(initial=0.0) or 1.0)
            total += 0.5 * cosine / (cosine.max(initial=0.0) or 1.0)
            if near is not None:
                total += NEIGHBOUR * self._neighbours(connection, near)[slots]
            order = np.argsort(-total, kind="stable")[:k]
            ids = dict(select_in(connection, "SELECT slot, id FROM passages WHERE slot", slots[order].tolist()))
            fit = np.clip(cosine, 0, 1)
            return [FoundPassage(ids[int(slots[at])], float(total[at]), float(fit[at])) for at in order]

    def similar(self, text: str, k: int, where: PassageFilter = EVERYTHING) -> list[tuple[str, float]]:
        """Return the `k` passages whose texts are most similar to a text, each with the cosine similarity."""
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            slots, similarity = self._nearest(
                self._embedder.embed([text])[0], k, self._arrays.allowed(connection, where)
            )
            ids = dict(select_in(connection, "SELECT slot, id FROM passages WHERE slot", slots.tolist()))
            return [(ids[slot], cosine) for slot, cosine in zip(slots.tolist(), similarity.tolist(), strict=True)]

    def _neighbours(self, connection: sqlite3.Connection, id_: str) -> Mask:
        """Return which slots are near a passage in its group."""
        found = connection.execute("SELECT place, position FROM passages WHERE id = ?", (id_,)).fetchone()
        columns = self._arrays.columns
        if found is None:
            return np.zeros(len(self._arrays), dtype=np.bool_)
        mask: Mask = (columns["group"] == found[0]) & (np.abs(columns["position"] - found[1]) <= NEIGHBOURS)
        return mask

    def _nearest(self, vector: Vectors, k: int, mask: Mask) -> tuple[Ints, Vectors]:
        slots = np.flatnonzero(mask)
        if len(slots) > _PRESELECTED:
            nearness = self._arrays.vectors.nearness(vector)[slots]
            slots = np.sort(slots[np.argpartition(nearness, len(slots) - _PRESELECTED)[-_PRESELECTED:]])
        similarity = cosines(self._arrays.vectors.rows[slots], vector)
        order = np.argsort(-similarity, kind="stable")[:k]
        return slots[order], similarity[order]

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        self._arrays.catch_up(connection, int(read_meta(connection, "epoch") or 0))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._file.reading() as (connection, fresh):
            if fresh:
                self._arrays.forget()
            yield connection
