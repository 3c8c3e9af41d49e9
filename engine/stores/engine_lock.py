"""`EngineLock`: a name that lives as long as its process, so that others can tell what a dead engine left behind.

It is a lock file that is held: the kernel lets go of it when its holder dies, in whatever way.
"""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

PRIVATE = 0o700


class EngineLock:
    """Of one engine. Close it when the engine closes."""

    def __init__(self, folder: Path) -> None:
        """folder: where the lock files of all engines on one home are; made when it is missing."""
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        self._folder = folder
        self.id = secrets.token_hex(8)
        self._descriptor = os.open(folder / self.id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def lives(self, other: str) -> bool:
        """Whether the engine of this name, maybe ourselves, is still there. What is left of a dead one is removed."""
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

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / self.id).unlink()
        os.close(self._descriptor)
