"""`Backups`: rolling backups of a home's SQLite databases, taken while they are in use, and restoring them.

    <folder>/<UTC time>/records.db, events.db      one backup; it appears completely or not at all

Copies are made with SQLite's online backup API (https://sqlite.org/backup.html), within one read transaction, so they
never block writers.
"""

import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.stores.atomic import TEMPORARY, publish_file, publish_folder, remove_leftovers, staging_folder
from engine.stores.locks import FileLock, StoreBusy
from engine.stores.sqlite_file import DiskFull, connect, explained, lock, log_of

_NAME = re.compile(r"\d{8}T\d{6}Z")
_FORMAT = "%Y%m%dT%H%M%SZ"
_FIRST = timedelta(hours=1)
_STEP_PAGES = 4096  # copied between two looks at whether to stop; 16 MiB
_GENERATIONS_AHEAD = 1_000_000  # more than what happens between two backups


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup.

    Attributes:
        name: the UTC time at which it was taken, such as ``20260102T030405Z``.
        folder: where its files are.
        sizes: bytes of each database, by file name.
    """

    name: str
    folder: Path
    sizes: dict[str, int]

    @property
    def taken(self) -> datetime:
        return datetime.strptime(self.name, _FORMAT).replace(tzinfo=UTC)


class BackupStopped(Exception):
    """The engine closed before the backup was complete; it is discarded."""


class Backups:
    """The backups in one folder. Processes may share it. Every method blocks."""

    def __init__(self, folder: Path, databases: Sequence[Path], clock: Clock, *, keep: int, every: timedelta) -> None:
        """Touch nothing yet.

        Args:
            databases: the files to copy, all in one folder and with distinct names.
            keep: how many backups are kept; older ones are removed after a new one is complete. 0 takes none.
            every: the age from which the newest backup is due to be followed by another.
        """
        self._folder = folder
        self._databases = tuple(databases)
        self._clock = clock
        self._keep = keep
        self._every = every
        self._stopped = False

    def all(self) -> list[Backup]:
        """Return every complete backup, newest first."""
        if not self._folder.is_dir():
            return []
        names = sorted((entry.name for entry in self._folder.iterdir() if _NAME.fullmatch(entry.name)), reverse=True)
        return [Backup(name, self._folder / name, _sizes(self._folder / name)) for name in names]

    def due(self) -> bool:
        """Return whether the newest backup is old enough, or its time lies in the future (the clock was set back).

        A new home is due for its first backup after an hour.
        """
        if not self._keep:
            return False
        now = self._clock.now()
        newest = next(iter(self.all()), None)
        if newest is not None:
            return abs(now - newest.taken) >= self._every
        return any(abs(now - _created(file)) >= min(self._every, _FIRST) for file in self._databases if file.exists())

    def take_if_due(self) -> Backup | None:
        """Take a backup if one is due and no other process is taking one.

        Raises:
            ConfigError: a database is damaged, or the disk is full. Earlier backups are kept.
            BackupStopped: `stop` was called meanwhile.
        """
        if not self.due():
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self._folder / ".lock", patience_s=0).exclusive():
                return self._take() if self.due() else None
        except StoreBusy:
            return None

    def stop(self) -> None:
        """Make a backup that is being taken in another thread end soon."""
        self._stopped = True

    def restore(self, backup: Backup, only: Sequence[str] = ()) -> Path:
        """Put the databases of a backup in the place of the present ones, which are kept.

        The caller makes sure that no engine is open. Killed at any moment, this leaves a database under each name.

        Args:
            only: names of the files to restore; all by default.

        Returns:
            The folder that holds the files that were replaced.

        Raises:
            ConfigError: the backup is damaged, or the disk is full. Nothing was changed.
        """
        chosen = [file for file in self._databases if file.name in (only or backup.sizes)]
        aside = self._folder / f"replaced-{self._clock.now().astimezone(UTC).strftime(_FORMAT)}"
        aside.mkdir(mode=0o700, exist_ok=True)
        for file in chosen:
            with lock(file).exclusive():
                _replace(file, backup.folder / file.name, aside)
        return aside

    def _take(self) -> Backup:
        remove_leftovers(self._folder)
        name = self._clock.now().astimezone(UTC).strftime(_FORMAT)
        with staging_folder(self._folder) as staged:
            for file in self._databases:
                if file.exists():
                    self._copy(file, staged / file.name)
            publish_folder(staged, self._folder / name)
        for old in self.all()[self._keep :]:
            shutil.rmtree(old.folder)
        return Backup(name, self._folder / name, _sizes(self._folder / name))

    def _copy(self, source: Path, target: Path) -> None:
        with explained(source), closing(connect(source)) as reading, closing(connect(target)) as copy:
            reading.execute("BEGIN")  # one snapshot: otherwise each commit of others would start the copy again
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(copy, pages=_STEP_PAGES, progress=self._look)
            copy.execute("PRAGMA journal_mode=DELETE")  # a copy is one file
            verdict = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise ConfigError(f"{source}: no backup was taken, since the database is damaged ({verdict}).")

    def _look(self, _status: int, _remaining: int, _total: int) -> None:
        if self._stopped:
            raise BackupStopped


def _replace(file: Path, copy: Path, aside: Path) -> None:
    temporary = file.with_name(f"{TEMPORARY}{file.name}")
    try:
        with explained(file):
            try:
                shutil.copyfile(copy, temporary)
            except OSError as error:
                raise DiskFull(f"{temporary}: cannot be written ({error.strerror}). Nothing was changed.") from error
            temporary.chmod(0o600)
            _check_and_advance(temporary, copy)
        for path in (file, log_of(file), file.with_name(file.name + "-shm")):
            if path.exists():
                _link(path, aside / path.name)
                if path != file:
                    path.unlink()
        publish_file(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _link(path: Path, target: Path) -> None:
    if target.exists():  # kept by a restore that was killed within this second
        return
    try:
        target.hardlink_to(path)
    except OSError:  # a file system without hard links
        shutil.copy2(path, target)


def _created(file: Path) -> datetime:
    """When a database was first opened: its lock file is made then, and never written to."""
    path = file.with_name(file.name + ".lock")
    return datetime.fromtimestamp((path if path.exists() else file).stat().st_mtime, UTC)


def _check_and_advance(temporary: Path, copy: Path) -> None:
    """Check a copy, and move its generations past any that processes and indexes of this home may remember."""
    try:
        with closing(connect(temporary)) as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            connection.execute("UPDATE knackbox_generations SET value = value + ?", (_GENERATIONS_AHEAD,))
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise ConfigError(f"{copy}: the backup is damaged ({verdict}). Nothing was changed. Choose another one.")


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix == ".db"}
