"""`Backups`: takes rolling backups of a home's SQLite databases while they are in use, and restores them.

    <folder>/<UTC time>/records.db, events.db      one backup; it is complete or absent

Copies are made with SQLite's online backup API (https://sqlite.org/backup.html), within one read transaction, so they
never block writers.
"""

import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
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
_STEP_PAGES = 4096  # pages (16 MiB) to copy between two checks for `stop`
GENERATIONS_AHEAD = 1_000_000  # added to restored generation counters; more than the changes between two backups


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup of the databases of a home.

    Attributes:
        name: The UTC time at which the backup was taken, such as ``20260102T030405Z``.
        folder: The folder with the backup's files.
        sizes: The size of each database in bytes, by file name.
    """

    name: str
    folder: Path
    sizes: dict[str, int]

    @property
    def taken(self) -> datetime:
        return datetime.strptime(self.name, _FORMAT).replace(tzinfo=UTC)


class BackupStopped(Exception):
    """The engine closed before the backup was complete. The partial backup is discarded."""


class Backups:
    """The backups in one folder, which several processes may share. Every method blocks."""

    def __init__(self, folder: Path, databases: Sequence[Path], clock: Clock, *, keep: int, every: timedelta) -> None:
        """Create the object without accessing the files.

        Args:
            folder: The folder of the backups.
            databases: The files to copy, all in one folder and with distinct names.
            clock: The source of time.
            keep: The number of backups to keep. Older ones are removed after a new one is complete. With 0, no backups
                are taken.
            every: The interval between backups.
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
        """Return whether a backup is due.

        It is due when the newest backup is old enough, or is dated in the future because the clock was set back. The
        first backup of a new home is due after an hour.
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
            ConfigError: A database is damaged, or the disk is full. Earlier backups are kept.
            BackupStopped: `stop` was called in the meantime.
        """
        return self._take_if(self.due)

    def take_before_upgrade(self) -> Backup | None:
        """Take a backup now, unless backups are turned off or another process is taking one.

        Raises:
            ConfigError: A database is damaged, or the disk is full.
            BackupStopped: `stop` was called in the meantime.
        """
        return self._take_if(lambda: self._keep > 0)

    def stop(self) -> None:
        """Stop the backup that another thread is taking, if any."""
        self._stopped = True

    def restore(self, backup: Backup, only: Sequence[str] = ()) -> Path:
        """Replace the current databases with those of a backup. The current files are kept.

        The caller must make sure that no engine is open. If the process is killed midway, every file name still has
        either the old or the restored database.

        Args:
            backup: The backup.
            only: The names of the files to restore; all by default.

        Returns:
            The folder that holds the files that were replaced.

        Raises:
            ConfigError: The backup is damaged, or the disk is full. Nothing was changed.
        """
        chosen = [file for file in self._databases if file.name in (only or backup.sizes)]
        aside = self._folder / f"replaced-{self._clock.now().astimezone(UTC).strftime(_FORMAT)}"
        aside.mkdir(mode=0o700, exist_ok=True)
        for file in chosen:
            with lock(file).exclusive():
                _replace(file, backup.folder / file.name, aside)
        return aside

    def _take_if(self, wanted: Callable[[], bool]) -> Backup | None:
        if not wanted():
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self._folder / ".lock", patience_s=0).exclusive():
                return self._take() if wanted() else None
        except StoreBusy:
            return None

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
            reading.execute("BEGIN")  # a snapshot; without it, each commit of another process would restart the copy
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(copy, pages=_STEP_PAGES, progress=self._check_stopped)
            copy.execute("PRAGMA journal_mode=DELETE")  # without a write-ahead log, so that the copy is a single file
            verdict = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise ConfigError(f"{source}: no backup was taken, because the database is damaged ({verdict}).")

    def _check_stopped(self, _status: int, _remaining: int, _total: int) -> None:
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
    if target.exists():  # created by a restore that was killed within the same second
        return
    try:
        target.hardlink_to(path)
    except OSError:  # a file system without hard links
        shutil.copy2(path, target)


def _created(file: Path) -> datetime:
    """Return when a database was first opened: the time of its lock file, which is never written after its creation."""
    path = file.with_name(file.name + ".lock")
    return datetime.fromtimestamp((path if path.exists() else file).stat().st_mtime, UTC)


def _check_and_advance(temporary: Path, copy: Path) -> None:
    """Check a copy, and raise its generation counters above any value that a process or an index may have seen."""
    try:
        with closing(connect(temporary)) as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            connection.execute("UPDATE knackbox_generations SET value = value + ?", (GENERATIONS_AHEAD,))
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise ConfigError(f"{copy}: the backup is damaged ({verdict}). Nothing was changed. Choose another backup.")


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix == ".db"}
