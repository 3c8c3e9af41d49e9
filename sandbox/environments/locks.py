"""Advisory file locks: shared by the users of an environment, exclusive for building or removing it.

A flock(2) lock belongs to an open file. So it also works between tasks of one process, and the kernel releases it even
if the process is killed.
"""

import contextlib
import fcntl
import os
from pathlib import Path


def try_lock(path: Path, *, exclusive: bool) -> int | None:
    """Return a descriptor that holds the lock until it is closed, or None if another holder has the lock.

    Raises:
        OSError: The lock file cannot be opened.
    """
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed before it was locked: lock the new one


def remove(path: Path) -> None:
    """Remove the lock file. The caller must have the exclusive lock."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
