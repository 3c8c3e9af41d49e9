"""Where a job's files are at this level: a private folder per job, below one that its supervisor holds locked.

    <temporary folder>/knackbox-landlock-xxxx/   locked (flock) for as long as a process of it lives
        <box id>/work                            the working directory
        <box id>/tmp                             HOME and TMPDIR

Walking and removing never follow a link, need no more than a few descriptors, and take any depth: the tree is whatever
untrusted code has made of it. Standard library only.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

PREFIX = "knackbox-landlock-"
_LOCK = ".lock"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # of st_blocks, whatever the file system
MAX_ENTRIES = 65_536  # the inodes a box of the namespace backend has
_MAX_DEPTH = 100
_ALL_RIGHTS, _TO_LOOK = 0o700, 0o500


@dataclass(frozen=True)
class Place:
    """The folder of one job. All paths absolute."""

    root: str

    @property
    def work(self) -> str:
        return f"{self.root}/work"

    @property
    def tmp(self) -> str:
        return f"{self.root}/tmp"  # noqa: S108  (its own)

    def make(self, uid: int, gid: int) -> None:
        """Nobody but this user sees into it."""
        for path in (self.root, self.work, self.tmp):
            os.mkdir(path, 0o700)
        self.give(uid, gid)

    def give(self, uid: int, gid: int) -> None:
        """While it is empty."""
        for path in (self.root, self.work, self.tmp):
            os.chown(path, uid, gid)


def make_base(below: str, *, for_others: bool) -> tuple[str, int]:
    """A new base folder and its lock; what earlier ones have left behind is removed. Raises OSError.

    for_others: jobs run as other users than this one, who must get through to their own.
    """
    sweep(below)
    base = tempfile.mkdtemp(prefix=PREFIX, dir=below)
    lock = os.open(f"{base}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if for_others:
        os.chmod(base, 0o711)  # noqa: S103  (to be passed, not read)
    return base, lock


def sweep(below: str) -> None:
    """Remove the bases of our user that no process holds any more."""
    for name in os.listdir(below):
        base = f"{below}/{name}"
        if not name.startswith(PREFIX) or os.lstat(base).st_uid != os.geteuid():
            continue
        with contextlib.suppress(OSError):  # held, or being removed by another
            lock = os.open(f"{base}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(base)
            finally:
                os.close(lock)


def remove(path: str) -> None:
    """Remove a folder and all below it, by whoever may. What is not there is fine. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        empty(path)
        os.rmdir(path)


def empty(path: str) -> None:
    """Remove all below a folder. Every folder found is moved up here first, so depth costs nothing."""
    top = os.open(path, _FOLDER)
    mark = f".{PREFIX}{os.urandom(8).hex()}-"
    moved = 0
    try:
        while names := _names(top, _ALL_RIGHTS):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                with _opened(name, top) as folder:
                    for inner in _names(folder, _ALL_RIGHTS):
                        if _is_folder(inner, folder):
                            with _opened(inner, folder) as innermost:  # only who may write to it may move it
                                _have(innermost, _ALL_RIGHTS)
                            moved += 1
                            os.rename(inner, f"{mark}{moved}", src_dir_fd=folder, dst_dir_fd=top)
                        else:
                            os.unlink(inner, dir_fd=folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def measure(path: str) -> tuple[int, int]:
    """Bytes on disk of the plain files below a folder, and how many entries there are; endless where it is too deep."""
    top = os.open(path, _FOLDER)
    try:
        return _measure(top, 0, set())
    finally:
        os.close(top)


def _measure(folder: int, depth: int, seen: set[tuple[int, int]]) -> tuple[int, int]:
    if depth > _MAX_DEPTH:
        return 0, MAX_ENTRIES + 1
    size = entries = 0
    for name in _names(folder, _TO_LOOK):
        entries += 1
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                with _opened(name, folder) as inner:
                    more, below = _measure(inner, depth + 1, seen)
                size, entries = size + more, entries + below
        except (FileNotFoundError, NotADirectoryError):  # it changed while we looked
            continue
        if not stat.S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            size += found.st_blocks * _BLOCK
        if entries > MAX_ENTRIES:
            break
    return size, entries


@contextlib.contextmanager
def _opened(name: str, below: int) -> Iterator[int]:
    """A folder as a path descriptor; never what a link leads to."""
    folder = os.open(name, _FOLDER, dir_fd=below)
    try:
        yield folder
    finally:
        os.close(folder)


def _names(folder: int, rights: int) -> list[str]:
    """What is in a folder (a path descriptor), also where its mode says that its owner may not know."""
    _have(folder, rights)
    return os.listdir(f"/proc/self/fd/{folder}")


def _have(folder: int, rights: int) -> None:
    mode = os.fstat(folder).st_mode
    if mode & rights != rights:
        os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(mode) | rights)


def _is_folder(name: str, below: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=below, follow_symlinks=False).st_mode)
