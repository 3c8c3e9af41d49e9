"""`FileLock`: one holder, or many readers, across processes; the kernel lets go of it when its holder dies.

It is a BSD lock (flock(2)): it belongs to the open file, so two threads or two objects of one process exclude each
other as two processes do. The lock file stays behind, empty; removing it would let two holders in.
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
    """Another process kept a store locked for longer than we were willing to wait."""


class FileLock:
    """A lock named by a file. Every acquisition opens the file anew, so one object may be used from many threads."""

    def __init__(self, path: Path, patience_s: float = PATIENCE_S) -> None:
        """patience_s: how long to wait for others, seconds, before StoreBusy."""
        self._path = path
        self._patience_s = patience_s

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold it alone. Raises StoreBusy when it cannot be had in time, OSError when the file cannot be opened."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with other readers. Raises as `exclusive` does."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait(descriptor, kind)
            yield
        finally:
            os.close(descriptor)  # closing is what releases it

    def _wait(self, descriptor: int, kind: int) -> None:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"{self._path}: another process has held this lock for {self._patience_s:g} s. "
                        "Wait for it to finish, or end it, and try again."
                    ) from None
                time.sleep(POLL_S)
            else:
                return
