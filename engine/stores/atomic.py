"""Writes files and folders atomically: they are complete or absent, even if the process or the machine stops midway.

Temporary files have names that start with `TEMPORARY` and are locked (flock(2)) by their writer. The lock ends when the
process that holds it ends, so `remove_leftovers` can tell the leftovers of a killed process from files in progress.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.stores.locks import lock_if_free

TEMPORARY = ".tmp-"
AT_FDCWD = -100
RENAME_NOREPLACE = 1  # linux/fs.h, for renameat2(2)
RENAME_EXCHANGE = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file's content atomically: readers see the old or the new bytes, even after a crash.

    The mode of an existing file is kept.

    Raises:
        OSError: The file cannot be written. The old file is unchanged.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_atomic_at(folder, path.name, data)
    finally:
        os.close(folder)


def write_atomic_at(folder: int, name: str, data: bytes, *, replace: bool = True) -> None:
    """Like `write_atomic`, but for a name in an open folder. A symbolic link of this name is replaced, not followed.

    Args:
        folder: The descriptor of the open folder.
        name: The name of the file.
        data: The content of the file.
        replace: Whether an existing file may be replaced.

    Raises:
        FileExistsError: The name exists, and `replace` is False.
    """
    with writing_atomic_at(folder, name, replace=replace) as stream:
        stream.write(data)


@contextmanager
def writing_atomic_at(folder: int, name: str, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Like `write_atomic_at`, but yield a stream for content that is too large for memory.

    If the block raises an exception, the file is not changed.
    """
    temporary, descriptor = _create_locked(folder)
    try:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(descriptor, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777)
            with open(descriptor, "wb", closefd=False) as stream:
                yield stream
            os.fsync(descriptor)
            if replace:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                _rename(temporary, name, RENAME_NOREPLACE, folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(descriptor)
    _sync_descriptor(folder)


def rename_new_at(folder: int, source: str, target: str) -> None:
    """Rename a file in an open folder.

    Raises:
        FileExistsError: The new name exists. Nothing is changed.
    """
    _rename(source, target, RENAME_NOREPLACE, folder)


@contextmanager
def staging_folder(parent: Path) -> Iterator[Path]:
    """Create an empty, locked folder in `parent` for preparing files. On exit, anything left at its path is removed."""
    while True:
        path = parent / (TEMPORARY + secrets.token_hex(8))
        path.mkdir(mode=0o700)
        descriptor = _lock_if_still_there(path)
        if descriptor is not None:
            break
    try:
        yield path
    finally:
        # After `publish_folder`, nothing is left at this path; after `replace_folder`, the old folder is.
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
        os.close(descriptor)


def publish_file(temporary: Path, final: Path) -> None:
    """Flush a prepared file to disk and move it to its final name atomically, replacing an existing file."""
    _sync_and_close(os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    temporary.rename(final)
    _sync_folder(final.parent)


def publish_folder(staged: Path, final: Path) -> None:
    """Flush a prepared folder to disk and move it to its final name atomically.

    Both names must be on the same file system.

    Raises:
        FileExistsError: The name exists. Nothing is changed.
    """
    _sync_tree(staged)
    _rename(staged, final, RENAME_NOREPLACE)
    _sync_folder(final.parent)


def replace_folder(staged: Path, final: Path) -> None:
    """Like `publish_folder`, but swap the folder with the existing one at `final`. The old folder is then at `staged`.

    Raises:
        FileNotFoundError: `final` does not exist.
        OSError: The file system cannot exchange names (EINVAL).
    """
    _sync_tree(staged)
    _rename(staged, final, RENAME_EXCHANGE)
    _sync_folder(final.parent)


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove the temporary files directly in `folder` whose writers are dead, and return what was removed."""
    removed = []
    for path in sorted(folder.glob(TEMPORARY + "*")):
        descriptor = lock_if_free(path)
        if descriptor is None:
            continue
        try:
            if not _is_same(path, descriptor):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed.append(path)
        finally:
            os.close(descriptor)
    return removed


def _create_locked(folder: int) -> tuple[str, int]:
    while True:
        name = TEMPORARY + secrets.token_hex(8)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o666, dir_fd=folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # otherwise, `remove_leftovers` removed it between open and flock
            return name, descriptor
        os.close(descriptor)


def _lock_if_still_there(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if _is_same(path, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _rename(source: Path | str, target: Path | str, flags: int, folder: int = AT_FDCWD) -> None:
    """Call renameat2(2). On file systems without RENAME_NOREPLACE, check first and then rename."""
    result = LIBC.renameat2(folder, os.fsencode(source), folder, os.fsencode(target), flags)
    if result == 0:
        return
    code = ctypes.get_errno()
    if flags == RENAME_NOREPLACE and code in {errno.EINVAL, errno.ENOSYS}:
        where = None if folder == AT_FDCWD else folder
        with contextlib.suppress(FileNotFoundError):
            os.stat(target, dir_fd=where, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.rename(source, target, src_dir_fd=where, dst_dir_fd=where)
        return
    raise OSError(code, os.strerror(code), str(source), None, str(target))


def _sync_tree(folder: Path) -> None:
    for root, _, files in os.walk(folder):
        for name in files:
            descriptor = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # noqa: PTH118 - os.walk gives strings
            _sync_and_close(descriptor)
        _sync_folder(Path(root))


def _sync_folder(folder: Path) -> None:
    _sync_and_close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _sync_and_close(descriptor: int) -> None:
    try:
        _sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _sync_descriptor(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder; a rename is durable there
            raise
