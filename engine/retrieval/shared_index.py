"""`SharedIndex`: the base of the indexes that keep their data in one file, which all processes of a home share."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from engine.retrieval.index_file import IndexFile, read_meta

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class ItemWriter(Protocol[T_contra]):
    """Writes items within a transaction."""

    def write(
        self, connection: sqlite3.Connection, changes: Mapping[str, T_contra | None], notes: Mapping[str, str], /
    ) -> None:
        """Add, replace and remove items, and store notes."""
        ...


class _ChangedMeanwhile(Exception):
    """Another process has changed the file since its notes were read."""


class SharedIndex(Generic[T]):
    """A set of items, such as documents, in a file. Thread-safe. The file is opened on first use. Call `close` once.

    A subclass adds the search. It reads within `_reading`, and discards in `_forget` what it keeps in memory.
    """

    def __init__(self, file: IndexFile, writer: ItemWriter[T]) -> None:
        self._file = file
        self._writer = writer
        self._lock = threading.RLock()
        self._blas = ThreadpoolController()

    def note(self, key: str) -> str:
        """Return the last note that `apply` stored under this key; "" if there is none."""
        with self._reading() as connection:
            return read_meta(connection, key)

    def notes(self, *keys: str) -> dict[str, str]:
        """Return the notes under several keys, all of the same moment; "" for those that do not exist."""
        with self._reading() as connection:
            return {key: read_meta(connection, key) for key in keys}

    def apply(
        self, changes: Mapping[str, T | None], notes: Mapping[str, str], *, after: Mapping[str, str] | None = None
    ) -> bool:
        """Add, replace and remove items atomically.

        Args:
            changes: The new items by id. None removes the item with that id.
            notes: Values for `note`, stored together with the changes.
            after: The notes for which the changes were prepared.

        Returns:
            False if nothing was written, because another process is writing or has changed a note in `after`, or the
            file was damaged and was replaced.
        """

        def write(connection: sqlite3.Connection) -> None:
            if any(read_meta(connection, key) != value for key, value in (after or {}).items()):
                raise _ChangedMeanwhile
            self._writer.write(connection, changes, notes)

        with self._lock:
            try:
                return self._file.write(write)
            except _ChangedMeanwhile:
                return False

    def clear(self) -> None:
        """Remove all items and notes."""
        with self._lock:
            self._file.replace()
            self._forget()

    def close(self) -> None:
        """Close the file. A later use opens it again."""
        with self._lock:
            self._file.close()
            self._forget()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._file.reading() as (connection, fresh):
            if fresh:
                self._forget()
            yield connection

    def _forget(self) -> None:
        """Discard everything in memory that was read from the file."""
        raise NotImplementedError
