"""`EngineLock`: a locked file for each open engine. It shows other processes whether the engine is still running.

The kernel releases the lock when the process dies.
"""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

PRIVATE = 0o700


class EngineLock:
    """The lock of one engine. Close it when the engine closes."""

    def __init__(self, folder: Path) -> None:
        """Create a lock file with a new name, and remove the files of engines that were killed.

        Args:
            folder: The folder with the lock files of all engines that use the same home. Created if it is missing.
        """
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        self._folder = folder
        self.id, self._descriptor = _take_new(folder)
        for other in self._others():
            self.is_running(other)

    def is_running(self, other: str) -> bool:
        """Return whether the engine with this id is still running. If it is not, remove its lock file."""
        if other == self.id:
            return True
        path = self._folder / other
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            path.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def running_others(self) -> list[str]:
        """Return the ids of the other engines that are running on this home."""
        return [other for other in self._others() if self.is_running(other)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / self.id).unlink()
        os.close(self._descriptor)

    def _others(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir() if path.name != self.id)


def _take_new(folder: Path) -> tuple[str, int]:
    while True:
        name = secrets.token_hex(8)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # otherwise, another engine removed the file before it was locked
            return name, descriptor
        os.close(descriptor)
