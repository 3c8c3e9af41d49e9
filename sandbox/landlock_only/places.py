"""The private folders of jobs: one per job, below a base folder that a supervisor keeps locked.

    <temporary folder>/knackbox-landlock-xxxx/   locked (flock) while any process that uses it lives
        <box id>/work                            the working directory
        <box id>/tmp                             HOME and TMPDIR

Measuring and removing folders never follows a link, needs only a few descriptors, and works at any depth, because
untrusted code made the folders. Standard library only.
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
_BLOCK = 512  # unit of st_blocks, on every file system
MAX_ENTRIES = 65_536  # the inodes of a box of the namespace backend
_MAX_DEPTH = 100
_ALL_RIGHTS, _TO_LOOK = 0o700, 0o500


@dataclass(frozen=True)
class JobFolder:
    """The folder of one job. All paths are absolute."""

    root: str

    @property
    def work(self) -> str:
        return f"{self.root}/work"

    @property
    def tmp(self) -> str:
        return f"{self.root}/tmp"  # noqa: S108  (the job's own)

    def make(self, uid: int, gid: int) -> None:
        """Create the folders, open to this user only."""
        for path in (self.root, self.work, self.tmp):
            os.mkdir(path, 0o700)
        self.give(uid, gid)

    def give(self, uid: int, gid: int) -> None:
        """Change the owner of the folders, which must be empty."""
        for path in (self.root, self.work, self.tmp):
            os.chown(path, uid, gid)


def make_base(below: str, *, for_others: bool) -> tuple[str, int]:
    """Create a base folder and lock it. Remove the base folders that earlier processes have left behind.

    Args:
        below: The folder in which to create it.
        for_others: Whether jobs run as other users, who must be able to enter the base folder.

    Raises:
        OSError: The folder cannot be created.
    """
    sweep(below)
    made = None
    while made is None:  # the `sweep` of another process may remove a base before it is locked
        made = _locked_base(below)
    base, lock = made
    if for_others:
        os.chmod(base, 0o711)  # noqa: S103  (others may enter but not list it)
    return base, lock


def _locked_base(below: str) -> tuple[str, int] | None:
    """Create a base folder and lock it. Return None if another process removed it in the meantime."""
    base = tempfile.mkdtemp(prefix=PREFIX, dir=below)
    try:
        lock = os.open(f"{base}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.fstat(lock).st_nlink:
        return base, lock
    os.close(lock)
    return None


def sweep(below: str) -> None:
    """Remove this user's base folders that are no longer locked by any process."""
    for name in os.listdir(below):
        base = f"{below}/{name}"
        if not name.startswith(PREFIX) or os.lstat(base).st_uid != os.geteuid():
            continue
        with contextlib.suppress(OSError):  # locked, or being removed by another process
            try:
                lock = os.open(f"{base}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                os.rmdir(base)  # a process was killed after it had created the folder, or before it removed it
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_base(base)
            finally:
                os.close(lock)


def remove_base(base: str) -> None:
    """Remove a base folder. The lock file is removed last: if this process is killed, `sweep` can remove the rest.

    Raises:
        OSError: An entry cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        empty(base, keep=_LOCK)
        os.unlink(f"{base}/{_LOCK}")
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(base)


def remove(path: str) -> None:
    """Remove a folder and everything below it. A missing folder is fine.

    Raises:
        OSError: An entry cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        empty(path)
        os.rmdir(path)


def empty(path: str, keep: str = "") -> None:
    """Remove everything below a folder, except its entry `keep`.

    Nested folders are first moved to the top, so the depth does not matter.
    """
    top = os.open(path, _FOLDER)
    mark = f".{PREFIX}{os.urandom(8).hex()}-"
    moved = 0
    try:
        while names := [name for name in _names(top, _ALL_RIGHTS) if name != keep]:
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                with _opened(name, top) as folder:
                    for inner in _names(folder, _ALL_RIGHTS):
                        if _is_folder(inner, folder):
                            with _opened(inner, folder) as innermost:  # moving it needs write permission
                                _have(innermost, _ALL_RIGHTS)
                            moved += 1
                            os.rename(inner, f"{mark}{moved}", src_dir_fd=folder, dst_dir_fd=top)
                        else:
                            os.unlink(inner, dir_fd=folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def measure(path: str) -> tuple[int, int]:
    """Return the bytes on disk of the plain files below a folder, and the number of entries.

    If there are too many entries, or the folders are nested too deeply, measuring stops early, and the number of
    entries is greater than `MAX_ENTRIES`.
    """
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
        except (FileNotFoundError, NotADirectoryError):  # changed while it was measured
            continue
        if not stat.S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            size += found.st_blocks * _BLOCK
        if entries > MAX_ENTRIES:
            break
    return size, entries


@contextlib.contextmanager
def _opened(name: str, below: int) -> Iterator[int]:
    """Open a folder as a path descriptor (O_PATH), without following a link."""
    folder = os.open(name, _FOLDER, dir_fd=below)
    try:
        yield folder
    finally:
        os.close(folder)


def _names(folder: int, rights: int) -> list[str]:
    """Return the names in a folder (a path descriptor), even if its mode keeps its owner from listing it."""
    _have(folder, rights)
    return os.listdir(f"/proc/self/fd/{folder}")


def _have(folder: int, rights: int) -> None:
    mode = os.fstat(folder).st_mode
    if mode & rights != rights:
        os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(mode) | rights)


def _is_folder(name: str, below: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=below, follow_symlinks=False).st_mode)
