"""One environment on disk: a folder of packages and a marker that says what was installed.

The marker is written last, and the whole folder is then renamed into place, so it is either complete or absent. The
marker contains a digest of every file's name, size and change times, so a folder that was modified afterwards is
detected and built again.
"""

import ctypes
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGES = "site-packages"
MARKER = "complete.json"
_MAX_MARKER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """The data of a marker. `requirements` are normalized. `size_bytes`, `files` and `digest` come from `survey`."""

    requirements: tuple[str, ...]
    interpreter: str
    installer: str
    size_bytes: int
    files: int
    digest: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The contents of a packages folder. `digest` covers names, kinds, sizes and times, but not the files' contents."""

    size_bytes: int
    files: int
    digest: str


def contents(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path below `folder` and the status of each entry, at every depth, without following links.

    Skips entries that vanish in the meantime.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = list(os.scandir(folder / below))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            try:
                yield path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
            except FileNotFoundError:
                continue


def survey(packages: Path) -> Survey:
    """Measure and hash the contents of a folder. A missing folder counts as empty."""
    size, files = 0, 0
    lines = []
    for path, status in contents(packages):
        size += status.st_blocks * 512
        files += 1
        # The size and times of a folder are omitted, because its entries are included.
        is_folder = stat.S_ISDIR(status.st_mode)
        stamps = () if is_folder else (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        lines.append(repr((os.fsencode(path), status.st_mode, *stamps)))
    return Survey(size, files, hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest())


def seal(folder: Path, requirements: tuple[str, ...], interpreter: str, installer: str) -> Marker:
    """Write the marker of a finished folder, and sync everything to disk before returning."""
    found = survey(folder / PACKAGES)
    marker = Marker(requirements, interpreter, installer, found.size_bytes, found.files, found.digest)
    with (folder / MARKER).open("x", encoding="utf-8") as out:
        json.dump(asdict(marker), out)
        out.flush()
        os.fsync(out.fileno())
    sync_file_system(folder)
    return marker


def read_marker(folder: Path) -> Marker | None:
    """Return the marker, or None if it is missing or unreadable."""
    try:
        with (folder / MARKER).open("rb") as source:
            fields = json.loads(source.read(_MAX_MARKER_BYTES))
        return Marker(**{**fields, "requirements": tuple(fields["requirements"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_whole(folder: Path, requirements: tuple[str, ...]) -> bool:
    """Return whether the folder has a marker for these requirements, and has not changed since `seal` wrote it."""
    marker = read_marker(folder)
    if marker is None or marker.requirements != requirements:
        return False
    return survey(folder / PACKAGES).digest == marker.digest


def sync_folder(folder: Path) -> None:
    """Sync the folder's list of entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Sync the whole file system with syncfs(2), instead of calling fsync for each of several thousand files."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
