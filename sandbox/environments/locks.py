"""Advisory locks on files: shared by those who use an environment, exclusive to the one who builds or removes it.

flock(2) belongs to an open file, so it also holds between tasks of one process, and the kernel lets go of it however
its holder ends.
"""

import contextlib
import fcntl
import os
from pathlib import Path


def try_lock(path: Path, *, exclusive: bool) -> int | None:
    """A descriptor that holds the lock until it is closed; None when somebody else has it. Raises OSError."""
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
        os.close(descriptor)  # it was removed between the open and the lock: take the new one


def remove(path: Path) -> None:
    """Remove the lock's file. Only its exclusive holder may."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
