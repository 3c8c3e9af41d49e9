"""`Erasure`: erases entries and every copy of them in the home.

The rows are removed from the database and the backups, which are then rewritten, as are the search indexes, and the
write-ahead log is emptied. Requests that contain an erased text are deleted from the learned requests of skills. At the
end, every file of the home is searched for the texts, and files that still contain one are reported.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from builtin_tools.memory.entries import Entry, KnownDocument
from builtin_tools.memory.home_scan import Progress, files_containing
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import AT_ONCE
from engine.stores.locks import FileLock, StoreBusy
from engine.stores.run_journal import transcripts_contain
from engine.stores.sqlite_file import connect

MOST_SEARCHED = 2_000  # maximum texts to search the home for; of more texts, an evenly spaced sample is searched
_PATIENCE_S = 10.0  # how long to wait for connections that read the log
_POLL_S = 0.02
_LOG_ENDS = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Places:
    """Folders and databases that may contain copies of entries.

    Attributes:
        home: The folder that is searched for erased texts.
        backups: The folder of the backups.
        databases: Databases that are rewritten if they still contain an erased text.
        others: Folders outside the home that are also searched, such as a configured workspace.
        transcripts: The database with the transcripts of runs. It is named if one of them contains an erased text.
    """

    home: Path
    backups: Path
    databases: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()
    transcripts: Path | None = None


@dataclass(frozen=True, slots=True)
class ErasedMemories:
    """The result of an erasure.

    Attributes:
        requests: The number of learned requests of skills that were deleted because they contained an erased text.
        remaining: Files that still contain an erased text.
    """

    entries: int = 0
    documents: int = 0
    requests: int = 0
    remaining: tuple[Path, ...] = ()


class Erasure:
    """Erases entries. Every method blocks."""

    def __init__(
        self,
        store: MemoryStore,
        indexes: MemoryIndexes,
        places: Places,
        forget_requests: Callable[[Sequence[str]], int],
        *,
        forget_plans: Callable[[str], None],
        in_backups: bool = True,
    ) -> None:
        """Create the object.

        Args:
            forget_requests: Deletes the learned requests of skills that contain one of the given texts, and returns how
                many it deleted.
            forget_plans: Deletes the consolidation plans of an owner, which may contain words from entries.
            in_backups: Whether to erase the entries from the backups, too.
        """
        self._store = store
        self._indexes = indexes
        self._places = places
        self._forget_requests = forget_requests
        self._forget_plans = forget_plans
        self._in_backups = in_backups

    def erase(
        self, entries: Sequence[Entry], documents: Sequence[KnownDocument] = (), progress: Progress | None = None
    ) -> ErasedMemories:
        """Erase entries, and documents with all their passages.

        Raises:
            StoreBusy: Other processes used a file for too long. The entries are deleted, but copies of them remain
                until `finish` erases them.
        """
        every = {entry.id: entry for entry in entries}
        owners = sorted({*(each.owner for each in entries), *(each.owner for each in documents)})
        with ExitStack() as stack:
            indexes = [self._indexes.of(owner) for owner in owners]
            for index in indexes:
                stack.enter_context(index.lock.exclusive())
            with self._store.changing() as memory:
                for document in documents:
                    every |= {passage.id: passage for passage in memory.remove_document(document.id)}
                memory.remove([entry for entry in every.values() if memory.one([entry.owner], entry.id) is not None])
            for owner in owners:
                self._forget_plans(owner)
            for index in indexes:
                index.erase()
        self.finish()
        texts = [entry.text for entry in every.values()] + [document.text for document in documents]
        requests = self._forget_requests(texts)
        return ErasedMemories(len(every), len(documents), requests, tuple(self._remaining(texts, progress)))

    def erase_owner(self, owner: str, progress: Progress | None = None) -> ErasedMemories:
        """Erase all entries and documents of one owner, and the ids of entries that were removed earlier.

        Raises:
            StoreBusy: As in `erase`.
        """
        with self._store.reading() as memory:
            entries, documents = memory.entries([owner]), memory.documents([owner])
        erased = self.erase(entries, documents, progress)
        with self._store.changing() as memory:
            memory.forget_removals(owner)
        self._indexes.drop(owner)
        self._truncate_log()
        return erased

    def finish(self) -> None:
        """Erase the remaining copies of deleted entries, for instance after a process was killed during an erasure.

        Raises:
            StoreBusy: Other processes used a file for too long.
        """
        with self._store.reading() as memory:
            pending = memory.pending_removals()
        if pending:
            if self._in_backups and self._places.backups.is_dir():
                # Waits for a backup in progress, which may still contain the rows.
                with FileLock(self._places.backups / ".lock").exclusive():
                    for copy in self._places.backups.rglob("memory.db"):
                        _erase_rows(copy, pending)
            self._rewrite_database()
            with self._store.changing() as memory:
                memory.settle_removals(pending)
        self._truncate_log()

    def _remaining(self, texts: Sequence[str], progress: Progress | None) -> list[Path]:
        """Rewrite databases that still contain one of the texts, then return all files that contain one of them."""
        step = -(-len(texts) // MOST_SEARCHED) or 1
        searched = texts[::step]
        found = self._search(searched, progress)
        rewritten = [file for file in self._places.databases if any(_belongs(path, file) for path in found)]
        for file in rewritten:
            _rewrite(file)
        return self._search(searched, None) if rewritten else found

    def _search(self, texts: Sequence[str], progress: Progress | None) -> list[Path]:
        roots = (self._places.home, *self._places.others)
        found = [path for root in roots for path in files_containing(root, texts, progress)]
        runs = self._places.transcripts
        if runs is not None and runs not in found and transcripts_contain(runs, texts):
            found.append(runs)
        return found

    def _rewrite_database(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not self._store.rewrite():
            if time.monotonic() > until:
                raise StoreBusy(
                    f"Other processes have been using the memory for {_PATIENCE_S:g} s, so copies of deleted entries "
                    "could not be erased. This is tried again at the next start; or stop these processes and try again."
                )
            time.sleep(_POLL_S)

    def _truncate_log(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not self._store.truncate_log() and time.monotonic() < until:
            time.sleep(_POLL_S)


def _belongs(path: Path, database: Path) -> bool:
    return path.parent == database.parent and path.name in (database.name, *(database.name + end for end in _LOG_ENDS))


def _rewrite(file: Path) -> None:
    """Rewrite a database to remove remnants of deleted rows. A database in use is left as it is."""
    with contextlib.suppress(sqlite3.Error), closing(connect(file)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _erase_rows(copy: Path, ids: Sequence[str]) -> None:
    """Delete entries, and documents left without passages, from a backup. A damaged backup is left as it is."""
    with contextlib.suppress(sqlite3.Error), closing(connect(copy)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("BEGIN IMMEDIATE")
        for start in range(0, len(ids), AT_ONCE):
            some = list(ids[start : start + AT_ONCE])
            marks = ",".join("?" * len(some))
            documents = connection.execute(
                f"SELECT DISTINCT document FROM memory_entries WHERE document <> '' AND id IN ({marks})",  # noqa: S608 -- marks
                some,
            ).fetchall()
            connection.execute(f"DELETE FROM memory_entries WHERE id IN ({marks})", some)  # noqa: S608 -- marks only
            connection.execute(f"DELETE FROM memory_pairs WHERE older IN ({marks}) OR newer IN ({marks})", some + some)  # noqa: S608 -- same
            connection.executemany(
                "DELETE FROM memory_documents WHERE id = ? "
                "AND NOT EXISTS (SELECT 1 FROM memory_entries WHERE document = memory_documents.id)",
                documents,
            )
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_plans'").fetchone():
            connection.execute("DELETE FROM memory_plans")
        connection.execute("COMMIT")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
