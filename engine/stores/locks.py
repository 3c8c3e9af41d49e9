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
