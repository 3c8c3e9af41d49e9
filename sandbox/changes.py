"""The changes that a job made to a copied workspace (`Writes.COPY`). They are discarded unless `apply` is called."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777


class ChangeKind(StrEnum):
    """How a path changed: a file or link was added or modified, or a file, link or folder was deleted."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """A changed path of the workspace.

    Attributes:
        path: Relative to the workspace.
        kind: How the path changed.
        data: The whole content of the file; empty for a link or a deletion.
        mode: Permission bits.
        link: The target of a symbolic link; "" for a file.
        too_large: Whether the file was too large to send out of the box. Such a change can be listed but not applied.
    """

    path: str
    kind: ChangeKind
    data: bytes = b""
    mode: int = 0o600
    link: str = ""
    too_large: bool = False


def apply(changes: Iterable[Change], root: Path) -> None:
    """Apply changes to the folder, replacing each file atomically.

    Symbolic links in a path are never followed, so nothing outside the folder changes, even if the folder was modified
    in the meantime.

    Raises:
        ValueError: A path leads out of the folder, or a change is too large.
        OSError: A file cannot be written or deleted.
    """
    for change in changes:
        parts = PurePosixPath(change.path).parts
        if not parts or PurePosixPath(change.path).is_absolute() or ".." in parts:
            raise ValueError(f"{change.path!r} leaves the workspace")
        if change.too_large:
            raise ValueError(f"{change.path!r} was too large to be brought back from the box")
        with _parent(root, parts[:-1], make=change.kind is not ChangeKind.DELETED) as folder:
            if folder is None:
                continue
            if change.kind is ChangeKind.DELETED:
                _delete(folder, parts[-1])
            else:
                _put(folder, parts[-1], change)


@contextmanager
def _parent(root: Path, parts: tuple[str, ...], *, make: bool) -> Iterator[int | None]:
    """Open a folder below the root step by step, without following links. With `make`, create what is missing.

    Yields the folder's descriptor; None if the folder does not exist and `make` is false.
    """
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            try:
                inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            except FileNotFoundError:
                yield None
                return
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _put(folder: int, name: str, change: Change) -> None:
    temporary = f".tmp-{secrets.token_hex(8)}"
    if change.link:
        os.symlink(change.link, temporary, dir_fd=folder)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as out:
            out.write(change.data)
            out.flush()
            os.fchmod(out.fileno(), change.mode & _PERMISSIONS)
            os.fsync(out.fileno())
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(temporary, dir_fd=folder)
        raise


def _delete(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=folder)
