"""`FileLock`: an exclusive or shared lock across processes. The kernel releases it when the process that holds it dies.

It is a BSD lock (flock(2)), which belongs to the open file. Therefore two threads or two `FileLock` objects of one
process exclude each other just as two processes do. The empty lock file is never removed: otherwise two processes could
lock different files of the same name.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 30.0
POLL_S = 0.002


def lock_if_free(path: Path, *, create: bool = False) -> int | None:
    """Return a descriptor of a file or folder that holds an exclusive lock on it; closing it releases the lock.

    Args:
        path: The file or folder. A link is not followed.
        create: Whether to create a missing file, readable only by its owner.

    Returns:
        None if another holder has the lock, or nothing is there.
    """
    flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class StoreBusy(TimeoutError):
    """Another process held a lock for longer than the caller was willing to wait."""


class FileLock:
    """A lock on a file. Each time it is acquired, the file is opened again, so threads may share one object."""

    def __init__(self, path: Path, patience_s: float = PATIENCE_S) -> None:
        """Create the lock.

        Args:
            path: The lock file. It is created if it is missing.
            patience_s: Seconds to wait for other holders before StoreBusy is raised.
        """
        self._path = path
        self._patience_s = patience_s

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock exclusively.

        Raises:
            StoreBusy: Another holder did not release the lock in time.
            OSError: The file cannot be opened.
        """
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers.

        Raises:
            StoreBusy: Another holder did not release the lock in time.
            OSError: The file cannot be opened.
        """
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait(descriptor, kind)
            yield
        finally:
            os.close(descriptor)  # this releases the lock

    def _wait(self, descriptor: int, kind: int) -> None:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"{self._path}: another process has held this lock for {self._patience_s:g} s. "
                        "Wait for it to finish, or stop it, and try again."
                    ) from None
                time.sleep(POLL_S)
            else:
                return
