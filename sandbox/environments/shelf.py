"""`Shelf`: manages the cache folder. Locates environments, locks those in use, and evicts others.

<cache>/environments/<key>/site-packages     what boxes see, read-only
<cache>/environments/<key>/complete.json     the marker
<cache>/environments/.locks/<key>            lock file, locked while in use; its modification time is the last use
<cache>/environments/.staging/<key>.<id>/    being built, or being removed
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.environments import folders, locks


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """The number and size of the environments in the cache.

    Attributes:
        folder: The folder of the cache.
        environments: The number of complete environments.
        in_use: The number of environments that a process has locked.
        size_bytes: The total size of all complete environments.
    """

    folder: Path
    environments: int
    in_use: int
    size_bytes: int
    cap_bytes: int


class Shelf:
    """Manages a cache folder. Every method may block, and raises OSError if the folder cannot be used."""

    def __init__(self, cache: Path, clock_ns: Callable[[], int]) -> None:
        self.root = cache.expanduser().absolute() / "environments"
        self._locks = self.root / ".locks"
        self._staging = self.root / ".staging"
        self._clock_ns = clock_ns

    def make(self) -> None:
        """Create the folders with access for this user only, because their contents decide what boxes import."""
        self.root.mkdir(0o700, parents=True, exist_ok=True)
        owner = self.root.stat().st_uid
        if owner != os.geteuid():
            raise PermissionError(0, f"it belongs to user {owner}, who could change its contents", str(self.root))
        self.root.chmod(0o700)
        for folder in (self._locks, self._staging):
            folder.mkdir(0o700, exist_ok=True)

    def packages(self, key: str) -> Path:
        return self.root / key / folders.PACKAGES

    def has(self, key: str) -> bool:
        """Return whether the environment exists, though not whether it is complete."""
        return (self.root / key / folders.MARKER).exists()

    def is_whole(self, key: str, wanted: tuple[str, ...]) -> bool:
        return folders.is_whole(self.root / key, wanted)

    def try_lock(self, key: str, *, exclusive: bool) -> int | None:
        """Lock the environment, as `locks.try_lock` does."""
        return locks.try_lock(self._locks / key, exclusive=exclusive)

    def forget_lock(self, key: str) -> None:
        """Remove the lock file of a key that has no environment. The caller must have the exclusive lock."""
        locks.remove(self._locks / key)

    def touch(self, key: str) -> None:
        """Record the current time as the last use of the environment."""
        now = self._clock_ns()
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._locks / key, ns=(now, now))

    def stage(self, key: str) -> Path:
        """Remove what exists for this key, and return an empty folder to build in.

        The caller must have the exclusive lock.
        """
        self._set_aside(key)
        for left in self._staging.glob(f"{key}.*"):
            shutil.rmtree(left, ignore_errors=True)
        staging = self._fresh(key)
        staging.mkdir(0o755)
        return staging

    def publish(self, key: str, staging: Path, wanted: tuple[str, ...], interpreter: str, installer: str) -> None:
        """Seal the environment that was built in `staging`, and move it into the cache.

        The caller must have the exclusive lock.
        """
        shutil.rmtree(staging / "scratch")
        (staging / folders.PACKAGES / ".lock").unlink(missing_ok=True)  # uv's lock file, writable by every user
        for folder in (staging, staging / folders.PACKAGES):
            folder.chmod(0o755)  # a box runs as another user, which must be able to enter the folder
        folders.seal(staging, wanted, interpreter, installer)
        staging.rename(self.root / key)
        folders.sync_folder(self.root)

    def evict(self, cap_bytes: int) -> tuple[str, ...]:
        """Remove the least recently used environments until at most `cap_bytes` are left; return the removed keys."""
        self._clear_leftovers()
        found = sorted(self._all(), key=lambda item: self._last_use(item[0]))
        size = sum(marker.size_bytes for _, marker in found)
        gone = []
        for key, marker in found:
            if size <= cap_bytes:
                break
            if self._remove(key):
                size -= marker.size_bytes
                gone.append(key)
        return tuple(gone)

    def usage(self, cap_bytes: int) -> CacheUsage:
        """Return the usage of the cache; a missing folder counts as empty. Does not wait for locks."""
        found = list(self._all())
        in_use = 0
        for key, _ in found:
            lock = self.try_lock(key, exclusive=True)
            if lock is None:
                in_use += 1
            else:
                os.close(lock)
        return CacheUsage(self.root, len(found), in_use, sum(marker.size_bytes for _, marker in found), cap_bytes)

    def _remove(self, key: str) -> bool:
        """Remove the environment, unless it is in use; return whether it was removed."""
        lock = self.try_lock(key, exclusive=True)
        if lock is None:
            return False
        try:
            self._set_aside(key)
            self.forget_lock(key)
        finally:
            os.close(lock)
        return True

    def _set_aside(self, key: str) -> None:
        """Move the environment away in one step, so that no process sees half of it."""
        aside = self._fresh(key)
        with contextlib.suppress(FileNotFoundError):
            (self.root / key).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    def _clear_leftovers(self) -> None:
        """Remove folders without a readable marker, and build folders that killed processes left, unless locked."""
        for folder in self.root.iterdir():
            if not folder.name.startswith(".") and folders.read_marker(folder) is None:
                self._remove(folder.name)
        for left in list(self._staging.iterdir()):
            key = left.name.partition(".")[0]
            lock = self.try_lock(key, exclusive=True)
            if lock is None:
                continue
            try:
                shutil.rmtree(left, ignore_errors=True)
                if not self.has(key):
                    self.forget_lock(key)
            finally:
                os.close(lock)

    def _all(self) -> Iterator[tuple[str, folders.Marker]]:
        for folder in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            marker = None if folder.name.startswith(".") else folders.read_marker(folder)
            if marker is not None:
                yield folder.name, marker

    def _last_use(self, key: str) -> int:
        try:
            return (self._locks / key).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _fresh(self, key: str) -> Path:
        return self._staging / f"{key}.{secrets.token_hex(8)}"
