"""`KeptContents`: a folder with the contents of files, each stored once under its SHA-256 digest.

Only the owner can read the folder. Files that a box changed are only copied here as bytes, never parsed or run. On file
systems that can share blocks between files (Btrfs, XFS, bcachefs), a copy of a large file shares the blocks of the
original (FICLONE).
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from engine.stores.atomic import TEMPORARY
from engine.stores.locks import FileLock

_FICLONE = 0x40049409  # linux/fs.h
_IN_MEMORY = 1 << 20  # bytes; smaller files are read at once, and not written again if they are known
_PIECE = 1 << 18
_TRIES = 3  # for a file that changes while it is read
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class KeptContents:
    """The contents of files. All methods block.

    Whoever adds contents holds `adding` until they are referenced in the database, and whoever removes unreferenced
    contents holds `removing`.
    """

    def __init__(self, folder: Path, file_bytes: int) -> None:
        """Create the folder if it is missing.

        Args:
            folder: The folder.
            file_bytes: The largest file whose content is kept.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._file_bytes = file_bytes
        lock = FileLock(folder / ".lock")
        self.adding = lock.shared
        self.removing = lock.exclusive

    def keep(self, parent: int, name: str, room: int) -> tuple[bytes, os.stat_result] | None:
        """Copy the content of a file.

        Args:
            parent: The descriptor of the file's folder.
            name: The name of the file.
            room: How many bytes may be added.

        Returns:
            The digest and the stat data of the copied file. None if the file is too large, unreadable, or changes
            again and again while it is read.
        """
        try:
            descriptor = os.open(name, _READ, dir_fd=parent)
        except OSError:
            return None
        try:
            for _ in range(_TRIES):
                before = os.fstat(descriptor)
                if before.st_size > min(self._file_bytes, room):
                    return None
                digest = self._copy(descriptor, before.st_size)
                after = os.fstat(descriptor)
                if digest and _signature(before) == _signature(after):
                    return digest, after
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return None

    def has(self, digest: bytes) -> bool:
        """Return whether the content with this digest is here."""
        return self._path(digest).exists()

    def opened(self, digest: bytes) -> int:
        """Open a content for reading, and return the descriptor.

        Raises:
            OSError: It is not here, or its bytes are damaged, for instance by a power failure.
        """
        descriptor = os.open(self._path(digest), _READ)
        found = hashlib.sha256()
        while piece := os.read(descriptor, _PIECE):
            found.update(piece)
        if found.hexdigest().encode() != digest:
            os.close(descriptor)
            raise OSError(f"the kept content {digest.decode()[:12]} is damaged")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def head(self, digest: bytes, limit: int) -> bytes:
        """Return at most `limit` first bytes of a content."""
        with self._path(digest).open("rb") as stream:
            return stream.read(limit)

    def digests(self) -> Iterator[bytes]:
        """Yield the digests of all contents, and remove files that a killed process left. Hold `removing`."""
        for shelf in self._folder.iterdir():
            if not shelf.is_dir():
                continue
            for path in shelf.iterdir():
                if path.name.startswith(TEMPORARY):
                    path.unlink(missing_ok=True)
                else:
                    yield (shelf.name + path.name).encode()

    def remove(self, digest: bytes) -> None:
        """Remove a content. Hold `removing`."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: bytes) -> Path:
        text = digest.decode("ascii")
        return self._folder / text[:2] / text[2:]

    def _copy(self, source: int, size: int) -> bytes:
        """Copy an open file and return the digest of the copy; b"" if the file does not have this size."""
        os.lseek(source, 0, os.SEEK_SET)
        if size <= _IN_MEMORY:
            data = _read(source, size + 1)
            digest = hashlib.sha256(data).hexdigest().encode()
            if len(data) == size and not self.has(digest):
                with self._new(digest) as target:
                    _write(target, data)
            return digest if len(data) == size else b""
        return self._copy_large(source, size)

    def _copy_large(self, source: int, size: int) -> bytes:
        shelf = self._folder / TEMPORARY
        shelf.mkdir(mode=0o700, exist_ok=True)
        temporary = shelf / (TEMPORARY + secrets.token_hex(8))
        target = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not _cloned(source, target):
                _copy_bytes(source, target, size)
            os.lseek(target, 0, os.SEEK_SET)
            found, length = hashlib.sha256(), 0
            while piece := os.read(target, _PIECE):
                found.update(piece)
                length += len(piece)
            digest = found.hexdigest().encode()
            if length != size:
                return b""
            path = self._path(digest)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            temporary.rename(path)
            return digest
        finally:
            os.close(target)
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _new(self, digest: bytes) -> Iterator[int]:
        """Yield the descriptor of a new file, which becomes the content when the block ends."""
        path = self._path(digest)
        temporary = path.with_name(TEMPORARY + secrets.token_hex(8))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            target = os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            target = os.open(temporary, flags, 0o600)
        try:
            yield target
            temporary.rename(path)
        finally:
            os.close(target)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108 -- as cheap as possible: this runs for each small file


def _signature(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(source: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(source, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def _copy_bytes(source: int, target: int, size: int) -> None:
    while size > 0 and (piece := os.read(source, min(size, _PIECE))):
        _write(target, piece)
        size -= len(piece)


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True
