"""`KeptContents`: the contents of files, each stored once under its SHA-256 digest.

Small contents are rows of a database, since creating a file for each would take ten times as long. Large ones are
files. On file systems that can share blocks between files (Btrfs, XFS, bcachefs), these copies share the blocks of the
originals (FICLONE). Files that programs have changed are only copied here as bytes, never parsed or run.
"""

import fcntl
import hashlib
import os
import secrets
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from engine.stores.atomic import TEMPORARY
from engine.stores.locks import FileLock
from engine.stores.sqlite_file import Contents, connect, explained, prepare

_FICLONE = 0x40049409  # linux/fs.h
SMALL = 64 << 10  # bytes; larger contents are files
_BUFFER = 8 << 20  # bytes of small contents that are written in one transaction
_PIECE = 1 << 18
_TRIES = 3  # for a file that changes while it is read
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HELD = Contents(
    held="the earlier contents of files in workspaces, so that earlier changes cannot be undone",
    kept="the workspaces themselves, skills, the records, events and runs",
)
_SCHEMA = "CREATE TABLE IF NOT EXISTS contents (digest BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB)"


class KeptContents:
    """The contents of files. Threads and processes share them. All methods block.

    Whoever adds contents holds `adding` until they are referenced, and whoever removes unreferenced contents holds
    `removing`.
    """

    def __init__(self, folder: Path, *, file_bytes: int, store_bytes: int) -> None:
        """Open or create the store.

        Args:
            folder: The folder of the store, readable only by its owner.
            file_bytes: The largest file whose content is kept.
            store_bytes: The most bytes of all contents.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file_bytes = file_bytes
        self.store_bytes = store_bytes
        self._folder = folder
        lock = FileLock(folder / "contents.lock")
        self.adding = lock.shared
        self.removing = lock.exclusive
        self._guard = threading.Lock()
        self._file = folder / "contents.db"
        self._total = (-1, 0)
        with explained(self._file):
            prepare(self._file, _HELD)
            self._connection = connect(self._file, secure_delete=True)
            self._connection.execute(_SCHEMA)

    def close(self) -> None:
        with self._guard:
            self._connection.close()

    def total_bytes(self) -> int:
        """Return the size of all contents."""
        with self._guard, explained(self._file):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()  # changes with other connections
            if version != self._total[0]:
                (total,) = self._connection.execute("SELECT coalesce(sum(size), 0) FROM contents").fetchone()
                self._total = version, total
            return self._total[1]

    def has(self, digest: bytes) -> bool:
        """Return whether the content with this digest is here."""
        with self._guard, explained(self._file):
            return self._has(digest)

    def add(self, contents: dict[bytes, tuple[int, bytes | None]]) -> None:
        """Add contents that are not here yet: by digest, their sizes, and their data unless they are files."""
        rows = [(digest, size, data) for digest, (size, data) in contents.items()]
        with self._guard, explained(self._file), self._transaction():
            self._connection.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", rows)
            self._total = -1, 0

    @contextmanager
    def opened(self, digest: bytes) -> Iterator[BinaryIO]:
        """Open a content for reading.

        Raises:
            OSError: It is not here, or its bytes are damaged, for instance by a power failure.
        """
        with self._guard, explained(self._file):
            row = self._connection.execute("SELECT data FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise OSError(f"the kept content {digest.decode()[:12]} is missing")
        with BytesIO(row[0]) if row[0] is not None else self._path(digest).open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest().encode() != digest:
                raise OSError(f"the kept content {digest.decode()[:12]} is damaged")
            stream.seek(0)
            yield stream

    def remove_others(self, needed: Container[bytes]) -> None:
        """Remove all contents except the needed ones, and what a killed process has left. Hold `removing`."""
        with self._guard, explained(self._file), self._transaction():
            every = [digest for (digest,) in self._connection.execute("SELECT digest FROM contents")]
            unneeded = [(digest,) for digest in every if digest not in needed]
            self._connection.executemany("DELETE FROM contents WHERE digest = ?", unneeded)
            self._total = -1, 0
            for shelf in [path for path in self._folder.iterdir() if path.is_dir()]:
                for path in shelf.iterdir():
                    if not self._has(f"{shelf.name}{path.name}".encode()):
                        path.unlink(missing_ok=True)
        with self._guard, explained(self._file):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log has the removed contents, too

    def copy_large(self, source: int, size: int) -> bytes:
        """Copy an open file to a file of the store, and return its digest; b"" if the file does not have this size."""
        shelf = self._folder / TEMPORARY
        shelf.mkdir(mode=0o700, exist_ok=True)
        temporary = shelf / secrets.token_hex(8)
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

    def _has(self, digest: bytes) -> bool:
        return self._connection.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)).fetchone() is not None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _path(self, digest: bytes) -> Path:
        text = digest.decode("ascii")
        return self._folder / text[:2] / text[2:]


class ContentBatch:
    """Adds the contents of many files. Small ones are written together."""

    def __init__(self, contents: KeptContents) -> None:
        self._contents = contents
        self._room = contents.store_bytes - contents.total_bytes()
        self._new: dict[bytes, tuple[int, bytes | None]] = {}
        self._buffered = 0

    def keep(self, parent: int, name: str) -> tuple[bytes, os.stat_result] | None:
        """Copy the content of a file.

        Args:
            parent: The descriptor of the file's folder.
            name: The name of the file.

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
                if before.st_size > min(self._contents.file_bytes, self._room):
                    return None
                digest, data = self._read(descriptor, before.st_size)
                after = os.fstat(descriptor)
                if digest and _signature(before) == _signature(after):
                    self._add(digest, after.st_size, data)
                    return digest, after
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return None

    def write(self) -> None:
        """Write the contents that are not written yet."""
        if self._new:
            self._contents.add(self._new)
            self._new, self._buffered = {}, 0

    def _read(self, source: int, size: int) -> tuple[bytes, bytes | None]:
        """Return the digest of an open file, and its data if it is small. The digest is b"" if the size is another."""
        os.lseek(source, 0, os.SEEK_SET)
        if size > SMALL:
            return self._contents.copy_large(source, size), None
        data = _read(source, size + 1)
        return (hashlib.sha256(data).hexdigest().encode() if len(data) == size else b""), data

    def _add(self, digest: bytes, size: int, data: bytes | None) -> None:
        if digest in self._new or self._contents.has(digest):
            return
        self._new[digest] = size, data
        self._room -= size
        self._buffered += len(data or b"")
        if self._buffered > _BUFFER:
            self.write()


def _signature(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(source: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(source, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _copy_bytes(source: int, target: int, size: int) -> None:
    while size > 0 and (piece := os.read(source, min(size, _PIECE))):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]
        size -= len(piece)


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True
