"""`FolderWorkspace`: the only folder that an agent may read and write. No path, `..` or link can lead out of it.

The kernel checks paths: openat2(2) with RESOLVE_BENEATH checks and opens a path in a single step, so that no part of it
can be replaced in between, and rejects a path that leaves the root. Without openat2 (before Linux 5.6, or if seccomp
blocks it), each folder of a path is opened with O_NOFOLLOW, which rejects all links.
"""

import contextlib
import ctypes
import errno
import os
import posixpath
import shutil
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

from engine.contract.failure import ConfigError
from engine.stores.atomic import TEMPORARY, write_atomic_at, writing_atomic_at

OPENAT2 = 437  # the same number on every architecture; linux/openat2.h
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
RETRIES = 32  # openat2 returns EAGAIN if a folder is moved during the call
LIBC = ctypes.CDLL(None, use_errno=True)

Kind = Literal["file", "folder", "link", "other"]


class WorkspaceError(ValueError):
    """A path that leads out of the workspace, or to the wrong kind of entry, such as a folder instead of a file."""


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """A file, folder or link in the workspace.

    Attributes:
        path: The path relative to the root.
        size: The size in bytes. Links are not followed.
    """

    path: str
    kind: Kind
    size: int
    modified: datetime


def _why_no_folder(root: Path, error: OSError) -> str:
    if root.exists() and not root.is_dir():
        return "it is not a folder"
    return error.strerror or str(error)


class _OpenHow(ctypes.Structure):
    """The C structure `open_how`, which is an argument of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class FolderWorkspace:
    """Implements `engine.contract.context.Workspace` with a folder on this machine.

    Paths are relative POSIX paths. Every method raises WorkspaceError if a path leads outside or is of the wrong kind
    (a folder instead of a file), and FileNotFoundError if it does not exist.
    """

    def __init__(self, root: Path, *, use_openat2: bool = True) -> None:
        """Create the folder if it is missing.

        Args:
            root: The folder.
            use_openat2: If False, each folder of a path is opened with O_NOFOLLOW, even if the kernel has openat2.

        Raises:
            ConfigError: The path cannot be used as a folder, for instance because it is a file.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{root}: cannot be used as the workspace ({_why_no_folder(root, error)}). Name a folder with "
                "`workspace` in config.toml or with --workspace."
            ) from error
        self.root = root.resolve()
        self._kernel_checks = use_openat2 and _has_openat2(self.root)

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the content of a file.

        Args:
            path: The file.
            limit: The largest allowed size in bytes.

        Raises:
            WorkspaceError: The file is larger than `limit`.
        """
        # O_NONBLOCK: opening a named pipe must not wait for a process at the other end.
        with self._opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            status = os.fstat(descriptor)
            if not modes.S_ISREG(status.st_mode):
                raise WorkspaceError(f"{path!r} is not a file but a {_kind(status)}; only files can be read.")
            if limit is not None and status.st_size > limit:
                raise WorkspaceError(f"{path!r} has {status.st_size:,} bytes, more than the {limit:,} allowed here.")
            with open(descriptor, "rb", closefd=False) as stream:
                return stream.read() if limit is None else stream.read(limit)

    def write(self, path: str, data: bytes) -> None:
        """Write a file atomically. Missing parent folders are created."""
        with self._parent(path, make=True) as (folder, name):
            if _is_folder(name, folder):
                raise WorkspaceError(f"{path!r} is a folder; give the path of a file.")
            write_atomic_at(folder, name, data)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Yield a stream whose content becomes the file atomically when the block ends.

        If the block raises an exception, the file is not changed. Missing parent folders are created.
        """
        with self._parent(path, make=True) as (folder, name):
            if _is_folder(name, folder):
                raise WorkspaceError(f"{path!r} is a folder; give the path of a file.")
            with writing_atomic_at(folder, name) as stream:
                yield stream

    def write_new(self, path: str, data: bytes) -> None:
        """Write a new file atomically, like `write`.

        Raises:
            FileExistsError: The path exists already.
        """
        with self._parent(path, make=True) as (folder, name):
            write_atomic_at(folder, name, data, replace=False)

    def list(self, path: str = ".") -> list[WorkspaceEntry]:
        """Return the entries of a folder, sorted by name, without files that are still being written."""
        prefix = self._normal(path)
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor, os.scandir(descriptor) as found:
            return sorted(
                (
                    _entry(posixpath.normpath(posixpath.join(prefix, item.name)), item.stat(follow_symlinks=False))
                    for item in found
                    if not item.name.startswith(TEMPORARY)
                ),
                key=lambda entry: entry.path,
            )

    def exists(self, path: str) -> bool:
        """Return whether a path exists. A link exists even if its target does not."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def stat(self, path: str) -> WorkspaceEntry:
        """Return the entry of a path. Links are not followed."""
        normal = self._normal(path)
        if normal == ".":
            with self._opened(".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                return _entry(".", os.fstat(descriptor))
        with self._parent(path) as (folder, name):
            return _entry(normal, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, unless they exist."""
        with self._descended(self._normal(path), path, make=True):
            pass

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, a link (not its target) or an empty folder.

        Args:
            recursive: Whether a folder that is not empty may be deleted, with its content.
        """
        with self._parent(path) as (folder, name):
            if not _is_folder(name, folder):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                shutil.rmtree(name, dir_fd=folder)
            else:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:
                        raise
                    raise WorkspaceError(f"{path!r} is not empty; delete it with recursive=True.") from error

    def move(self, source: str, target: str, *, replace: bool = False) -> None:
        """Move a file or folder. Missing parents are created.

        Args:
            replace: Whether a file may replace another.
        """
        with self._parent(source) as (old_folder, old), self._parent(target, make=True) as (new_folder, new):
            os.stat(old, dir_fd=old_folder, follow_symlinks=False)
            if not replace and _exists(new, new_folder):
                raise WorkspaceError(f"{target!r} exists already; choose another path or move with replace=True.")
            try:
                os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR}:
                    raise
                raise WorkspaceError(f"{source!r} cannot become {target!r}: {os.strerror(error.errno)}.") from error

    def walk(self, path: str = ".") -> Iterator[WorkspaceEntry]:
        """Yield all entries below a folder, sorted by name, parents first. Links are not followed."""
        for entry in self.list(path):
            yield entry
            if entry.kind == "folder":
                yield from self.walk(entry.path)

    def _normal(self, path: str) -> str:
        if not path or "\0" in path:
            raise WorkspaceError(f"{path!r} is not a path; give one relative to the workspace, such as 'data/in.csv'.")
        normal = posixpath.normpath(path)
        if normal.startswith(("/", "../")) or normal == "..":
            raise _escape(path)
        return normal

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the parent folder of a path, and yield its descriptor and the last name of the path."""
        normal = self._normal(path)
        if normal == ".":
            raise WorkspaceError(
                "The workspace folder itself cannot be written, moved or deleted; name a file or folder in it."
            )
        parent, name = posixpath.split(normal)
        with self._descended(parent or ".", path, make=make) as folder:
            yield folder, name

    @contextmanager
    def _descended(self, normal: str, path: str, *, make: bool) -> Iterator[int]:
        """Open a folder, and yield its descriptor.

        Args:
            normal: The normalized path of the folder.
            path: The path as given by the caller, for error messages.
            make: Whether missing folders are created.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            descriptor = self._open(normal, flags, path)
        except FileNotFoundError:
            if not make:
                raise FileNotFoundError(errno.ENOENT, "There is no such folder in the workspace", path) from None
            upper, name = posixpath.split(normal)
            # If the name exists by now, or is a broken link, opening it below succeeds or raises the right error.
            with self._descended(upper or ".", path, make=True) as folder, contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            descriptor = self._open(normal, flags, path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        descriptor = self._open(self._normal(path), flags, path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, normal: str, flags: int, path: str) -> int:
        top = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            opener = _open_beneath if self._kernel_checks else _open_without_links
            return opener(top, normal, flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.EXDEV, errno.ELOOP}:
                raise _escape(path) from error
            if error.errno == errno.ENOTDIR:
                raise WorkspaceError(f"{path!r}: a part of this path is not a folder.") from error
            if error.errno == errno.ENXIO:
                raise WorkspaceError(f"{path!r} is not a file; only files can be read.") from error
            if error.errno == errno.ENAMETOOLONG:
                raise WorkspaceError(f"{path[:60]!r}... is too long for a path.") from error
            raise type(error)(error.errno, error.strerror, path) from error
        finally:
            os.close(top)


def _escape(path: str) -> WorkspaceError:
    return WorkspaceError(f"{path!r} leads out of the workspace; give a path relative to it, such as 'data/in.csv'.")


def _open_beneath(top: int, normal: str, flags: int) -> int:
    how = _OpenHow(flags, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    for _ in range(RETRIES):
        descriptor: int = LIBC.syscall(
            OPENAT2, top, ctypes.c_char_p(os.fsencode(normal)), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(code, os.strerror(code), normal)


def _open_without_links(top: int, normal: str, flags: int) -> int:
    *folders, name = normal.split("/")
    here = os.dup(top)
    try:
        for folder in folders:
            below = _open_unless_link(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, here)
            os.close(here)
            here = below
        return _open_unless_link(name, flags, here)
    finally:
        os.close(here)


def _open_unless_link(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError as error:  # O_DIRECTORY with O_NOFOLLOW raises this for links as well
        if modes.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def _has_openat2(root: Path) -> bool:
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_open_beneath(top, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EPERM}:
            raise
        return False
    finally:
        os.close(top)
    return True


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_folder(name: str, folder: int) -> bool:
    try:
        return modes.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _kind(status: os.stat_result) -> Kind:
    if modes.S_ISREG(status.st_mode):
        return "file"
    if modes.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if modes.S_ISLNK(status.st_mode) else "other"


def _entry(path: str, status: os.stat_result) -> WorkspaceEntry:
    return WorkspaceEntry(path, _kind(status), status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
