"""`WriteQueue`: a queue of entries that are written in batches. Entries that cannot be written are kept for a retry."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy.exc import OperationalError

from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

_log = logging.getLogger("knackbox.dispatch")

MOST_WAITING = 10_000  # entries, about 10 MB

T = TypeVar("T")

# Transient errors: a busy or unreachable database, a full disk.
_TRANSIENT = (StoreBusy, ConfigError, OSError, OperationalError)


class WriteQueue(Generic[T]):
    """A bounded queue in front of a store. Any thread may add entries and write them.

    Attributes:
        failing: Whether the last write failed for a reason that may be temporary.
        lost: The number of entries that were dropped.
    """

    def __init__(self, store: str, write: Callable[[Sequence[T]], None], name: Callable[[T], str]) -> None:
        """Create an empty queue.

        Args:
            store: The name that messages use for the store.
            write: Writes entries atomically. It may block.
            name: Returns the name that messages use for an entry.
        """
        self.failing = False
        self.lost = 0
        self._store = store
        self._write = write
        self._name = name
        self._waiting: deque[T] = deque()
        self._writing = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: T) -> int:
        """Add an entry, and return how many are waiting. Blocks only if entries are not written fast enough."""
        self._waiting.append(entry)
        waiting = len(self._waiting)
        if waiting > MOST_WAITING:
            self._make_room()
        return waiting

    def write(self) -> None:
        """Write all waiting entries. Entries that cannot be written now keep their places in the queue."""
        with self._writing:
            entries = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not entries:
                return
            try:
                self._write(entries)
            except _TRANSIENT as error:
                self._waiting.extendleft(reversed(entries))
                if not self.failing:
                    cause = " ".join(str(error).split())[:300]
                    _log.warning(
                        "The %s cannot be written; its rows are kept and will be written later: %s", self._store, cause
                    )
                self.failing = True
            except Exception:  # noqa: BLE001 - one of the entries causes the error; the others must still be written
                self._write_each(entries)
            else:
                self.failing = False

    def _write_each(self, entries: Sequence[T]) -> None:
        for entry in entries:
            try:
                self._write([entry])
            except _TRANSIENT:
                self._waiting.append(entry)
            except Exception:  # noqa: BLE001 - writing this entry would fail the same way every time
                self.lost += 1
                name = self._name(entry)[:100]
                _log.exception("A row of the %s cannot be written and is dropped: %a", self._store, name)

    def _make_room(self) -> None:
        if not self.failing:
            self.write()
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.lost += 1
