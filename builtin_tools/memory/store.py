"""`MemoryStore`: the database with all memories (``memory.db``), which threads and processes share.

with store.reading() as memory:
    entry = memory.one(["user:ada"], entry_id)
with store.changing() as memory:
    memory.insert(new_entry)
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import MetaData

from builtin_tools.memory.changes import MemoryChange
from builtin_tools.memory.tables import ID, SCHEMA
from builtin_tools.memory.view import MemoryView
from engine.contract.context import Clock
from engine.stores.records import Records
from engine.stores.sqlite_file import Contents
from sandbox.secrets.redactor import Redactor

GENERATION = "memory"
CONTENTS = Contents(
    held="the memory: facts, documents, lessons and profiles",
    kept="skills, the records, events, settings and the workspace",
)


class MemoryStore:
    """The entries, documents and open pairs of all owners. Every method blocks."""

    def __init__(
        self,
        records: Records,
        clock: Clock,
        new_id: Callable[[], str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Create missing tables.

        Args:
            records: The database. `close` closes it, too.
            clock: The source of time.
            new_id: Returns a new, unpredictable id of 32 characters.
            redactor: Overwrites the values of secrets in what is stored.
        """
        self._records = records
        self._clock = clock
        self._redactor = redactor
        self._new_id = new_id or (lambda: secrets.token_hex(ID // 2))
        records.create(SCHEMA)

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Clock,
        new_id: Callable[[], str] | None = None,
        redactor: Redactor | None = None,
    ) -> "MemoryStore":
        """Open or create the database. `new_id` and `redactor` are the same as in the constructor.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        return cls(Records.open(f"sqlite:///{path}", secure_delete=True, contents=CONTENTS), clock, new_id, redactor)

    def create(self, metadata: MetaData) -> None:
        """Create the missing tables of another part of the memory in the same database."""
        self._records.create(metadata)

    @contextmanager
    def reading(self) -> Iterator[MemoryView]:
        """Open a transaction for reading."""
        with self._records.read() as connection:
            yield MemoryView(connection)

    @contextmanager
    def changing(self) -> Iterator[MemoryChange]:
        """Open a transaction for writing, and commit it unless an exception is raised.

        Raises:
            StoreBusy: Another process holds the database for too long.
            DiskFull: There is no space to write to. Nothing was changed.
        """
        with self._records.begin() as connection:
            generation = self._records.bump(GENERATION, connection)
            yield MemoryChange(connection, generation, self._clock.now().timestamp(), self._new_id, self._redactor)

    def generation(self) -> int:
        """Return the number of the latest change. Takes microseconds if nothing has changed since the previous call."""
        return self._records.generation(GENERATION)

    def truncate_log(self) -> bool:
        """Empty the write-ahead log, which contains copies of deleted rows. Return False if a reader prevents it."""
        return self._records.truncate_log()

    def rewrite(self) -> bool:
        """Rewrite the database without remnants of deleted rows. Return False if another connection prevents it."""
        return self._records.rewrite()

    def close(self) -> None:
        """Close the database."""
        self._records.close()
