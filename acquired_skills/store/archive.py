"""Reads skills to import from a folder or a zip file into memory. Nothing is written to disk.

The source may be malicious. So it is refused if an entry is not a plain file with a plain, relative name, or if the
files are larger, more deeply nested or more numerous than a skill needs.
"""

import hashlib
import json
import os
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from acquired_skills.model.skill import SkillError

MOST_FILES = 512
MOST_BYTES = 16 << 20  # maximum size of all files together, in bytes
MOST_FILE = 4 << 20
MOST_DEPTH = 8
MOST_RATIO = 100  # maximum compression ratio; text and code reach 20, and deflate can reach 1,032
SMALL = 64 << 10  # bytes; smaller files may have any ratio, because a short file of blanks is not a zip bomb
SKILL_FILE = "SKILL.md"
_MOST_NAME = 200  # maximum number of characters of a path
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1  # bit 0 of the general purpose flags (APPNOTE.TXT, 4.4.4)
# First bytes of zip (full and empty), gzip, bzip2, xz, 7z and zstd.
_NESTED = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"7z\xbc\xaf\x27\x1c", b"(\xb5/\xfd")
_TAR = (257, b"ustar")  # offset and text of the signature of a tar file
_CHUNK = 1 << 16

Files = Mapping[str, bytes]  # relative POSIX path -> content


class Unreadable(SkillError):
    """A folder or an archive is not a skill, or is unsafe to read. Nothing from it was kept."""


def read_skills(path: Path) -> list[Files]:
    """Return the files of each skill in a folder or a zip file, with paths relative to the skill's own folder.

    A folder is one skill. An archive has `SKILL.md` at its top level, or one folder for each skill.

    Raises:
        Unreadable: The source is not a skill, or is unsafe to read.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return [_checked(dict(_of_folder(path)), str(path))]
        if not stat.S_ISREG(kind):
            raise Unreadable(f"{path} is neither a folder nor a zip file. Give the path of one of these.")
        return _split(_checked(dict(_of_zip(path)), str(path)), str(path))
    except OSError as error:
        raise Unreadable(f"{error.filename or path} cannot be read ({error.strerror or error}).") from None


def digest_of(files: Files) -> str:
    """Return one SHA-256 of the names and contents of all files."""
    parts = sorted((path, hashlib.sha256(data).hexdigest()) for path, data in files.items())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _of_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file in a folder.

    Files are opened by descriptor without following links, in case the folder changes in the meantime.
    """
    left = _Limits(str(root))
    for at, folders, files, descriptor in os.fwalk(root, follow_symlinks=False, onerror=_raise):
        inside = Path(at).relative_to(root)
        for name in sorted(folders):
            left.folder((inside / name).as_posix())
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise Unreadable(f"{root}: {_shown(str(inside / name))} is a link; a skill may only have plain files.")
        for name in sorted(files):
            path = (inside / name).as_posix()
            left.name(path)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            if not stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise Unreadable(f"{root}: {_shown(path)} is not a plain file, but a link or a device.")
            with os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise Unreadable(f"{root}: {_shown(path)} is not a plain file, but a link or a device.")
                yield path, left.take(path, iter(lambda: file.read(_CHUNK), b""))


def _of_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    left = _Limits(str(path))
    if path.stat().st_size > MOST_BYTES:
        raise Unreadable(f"{path} has more than {MOST_BYTES:,} bytes, the limit of a skill.")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > 2 * MOST_FILES:
                raise Unreadable(f"{path} has {len(entries):,} entries, but may have at most {2 * MOST_FILES:,}.")
            names = [entry.filename for entry in entries]
            if len(set(names)) < len(names):
                raise Unreadable(f"{path} contains two entries with the same name. Remove one.")
            for entry in entries:
                left.name(entry.orig_filename.rstrip("/"))
                _check_entry(entry, str(path))
                if entry.is_dir():
                    continue
                with archive.open(entry) as file:
                    data = left.take(entry.filename, iter(lambda: file.read(_CHUNK), b""))
                if len(data) > max(SMALL, MOST_RATIO * entry.compress_size):
                    raise Unreadable(
                        f"{path}: {_shown(entry.filename)} is refused as a zip bomb, because it unpacks to "
                        f"{len(data):,} bytes."
                    )
                yield entry.filename, data
    except zipfile.BadZipFile as error:
        raise Unreadable(
            f"{path} is neither a folder nor a readable zip file ({' '.join(str(error).split())[:200]}). To propose a "
            "program with its tests, use `knackbox skills add`."
        ) from None
    except (zlib.error, NotImplementedError, EOFError, RuntimeError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read as a zip file ({' '.join(str(error).split())[:200]}).") from None


def _check_entry(entry: zipfile.ZipInfo, where: str) -> None:
    name = _shown(entry.orig_filename)
    if entry.orig_filename != entry.filename:  # zipfile truncates a name at a NUL
        raise Unreadable(f"{where}: {name} is not a valid file name.")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or ((kind == stat.S_IFDIR) != entry.is_dir() and kind):
        raise Unreadable(f"{where}: {name} is not a plain file, but a link or a device.")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
        raise Unreadable(f"{where}: {name} is encrypted, or compressed with an unsupported method.")


class _Limits:
    """Counts how many more files, folders and bytes may be read."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._files = MOST_FILES
        self._folders = MOST_FILES
        self._bytes = MOST_BYTES

    def name(self, path: str) -> None:
        """Check a path.

        Raises:
            Unreadable: The path might lead outside the folder, or name the same file as another path on some system.
        """
        parts = path.split("/")
        odd = any(not c.isprintable() or c in '\\:*?"<>|' for c in path)
        if odd or any(part in ("", ".", "..") or part != part.strip() or part.endswith(".") for part in parts):
            raise Unreadable(f"{self._where}: {_shown(path)} is not a plain, relative path.")
        if len(path) > _MOST_NAME or len(parts) > MOST_DEPTH:
            raise Unreadable(f"{self._where}: {_shown(path)} is too long, or too deep (at most {MOST_DEPTH} folders).")

    def folder(self, path: str) -> None:
        """Check and count a folder, even if it has no files.

        Raises:
            Unreadable: The path is invalid, or there are too many folders.
        """
        self.name(path)
        self._folders -= 1
        if self._folders < 0:
            raise Unreadable(f"{self._where} has more than {MOST_FILES} folders, the limit of a skill.")

    def take(self, path: str, chunks: Iterator[bytes]) -> bytes:
        """Return the whole content of a file, regardless of its stated size.

        Raises:
            Unreadable: The file is too large, or there are too many files.
        """
        self._files -= 1
        if self._files < 0:
            raise Unreadable(f"{self._where} has more than {MOST_FILES} files, the limit of a skill.")
        found, most = bytearray(), min(MOST_FILE, self._bytes)
        for chunk in chunks:
            found += chunk
            if len(found) > most:
                raise Unreadable(
                    f"{self._where}: {_shown(path)} is too large. A file may have at most {MOST_FILE:,} bytes, and all "
                    f"files together {MOST_BYTES:,}."
                )
        self._bytes -= len(found)
        return bytes(found)


def _checked(files: dict[str, bytes], where: str) -> dict[str, bytes]:
    """Return the files after checking their names and contents.

    Raises:
        Unreadable: Two names are equal on some system, or a file is an archive.
    """
    seen: dict[str, str] = {}
    for path in files:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            own = "/".join(parts[:depth]) + ("" if depth == len(parts) else "/")
            folded = unicodedata.normalize("NFKC", own.rstrip("/")).casefold()
            if seen.setdefault(folded, own) != own:
                raise Unreadable(
                    f"{where}: {_shown(path)} and {_shown(seen[folded])} are the same name on some systems."
                )
    for path, data in files.items():
        if data.startswith(_NESTED) or data[_TAR[0] :].startswith(_TAR[1]):
            raise Unreadable(f"{where}: {_shown(path)} is a nested archive; a skill may only have plain files.")
    return files


def _split(files: dict[str, bytes], where: str) -> list[Files]:
    if SKILL_FILE in files:
        return [files]
    skills: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        top, _, rest = path.partition("/")
        skills.setdefault(top, {})[rest] = data
    without = [top for top, inside in skills.items() if SKILL_FILE not in inside]
    if without or not skills:
        raise Unreadable(f"{where} has no {SKILL_FILE}. It must be at the top level, or in each top-level folder.")
    return [skills[top] for top in sorted(skills)]


def _raise(error: OSError) -> None:
    raise error


def _shown(path: str) -> str:
    """Format an untrusted name for display."""
    return ascii(path[:_MOST_NAME])
