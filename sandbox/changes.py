"""What a job did to a copied workspace, and how it is kept: `Writes.COPY` throws all away unless it is applied here."""

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
    """A file or link that is new, one that is different, or a file, link or folder that is gone."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One path of the workspace, relative. data: the whole file. link: the target of a symbolic link, "" for a file.

    mode: permission bits. too_large: the file was over what one answer carries; it can be listed, not kept.
    """

    path: str
    kind: ChangeKind
    data: bytes = b""
    mode: int = 0o600
    link: str = ""
    too_large: bool = False


def apply(changes: Iterable[Change], root: Path) -> None:
    """Keep changes: make them in the folder, each file replaced atomically.

    Symbolic links on the way are never followed, so nothing outside the folder changes, whatever has become of it
    since. Raises OSError, ValueError for a path that leaves the folder or a change that is too large to keep.
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
    """The folder a path is in, opened step by step; None when it is not there and need not be made."""
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
