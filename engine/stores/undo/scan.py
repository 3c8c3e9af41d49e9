"""Reads the states of all files of a workspace. A file whose stat data have not changed is not read again.

A folder is opened relative to its parent and without following links, so that a program that replaces a folder with a
link while it is scanned cannot make files outside the workspace be copied.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.stores.atomic import TEMPORARY
from engine.stores.undo.file_state import FileState, KnownFile, kind_of, not_kept
from engine.stores.undo.kept_contents import ContentBatch, KeptContents

DEEPEST = 100  # folders within each other; each holds a descriptor during the scan
# File systems take the time of a change from a clock that advances with the timer interrupt, at least every 10 ms. A
# file that was changed shortly before it was read could change again without a visible difference.
RACY_NS = 20_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o7777


class WorkspaceTooLarge(Exception):
    """A workspace has more files than are watched for undo."""


def too_large(root: Path, most: int) -> WorkspaceTooLarge:
    """Return the exception for a workspace with more than `most` files."""
    return WorkspaceTooLarge(f"{root} has more than {most:,} files, so changes there cannot be undone.")


@dataclass(frozen=True, slots=True)
class StateChange:
    """A path whose state differs. None stands for a path that does not exist."""

    path: str
    before: FileState | None
    after: FileState | None


@dataclass(slots=True)
class WorkspaceScan:
    """The result of a scan.

    Attributes:
        files: All files, folders and links by path, relative to the workspace.
        changes: The differences in state from the earlier scan.
        updated: The paths whose stat data or state differ, including those that no longer exist.
    """

    files: dict[str, KnownFile] = field(default_factory=dict)
    changes: list[StateChange] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)


class WorkspaceScanner:
    """Scans one workspace."""

    def __init__(self, root: Path, contents: KeptContents, *, omit: Path | None = None) -> None:
        """Create a scanner.

        Args:
            root: The workspace.
            contents: Where the contents of new and changed files are kept.
            omit: A folder that is not scanned, such as the home of the engine.
        """
        self._root = root
        self._contents = contents
        below = omit is not None and omit != root and omit.is_relative_to(root)
        self._omit = omit.relative_to(root).as_posix() if omit is not None and below else ""

    def scan(self, known: Mapping[str, KnownFile], most: int) -> WorkspaceScan:
        """Scan the workspace.

        Args:
            known: The files of the last scan.
            most: The most files, folders and links that are scanned.

        Raises:
            WorkspaceTooLarge: There are more than `most`.
            OSError: The workspace does not exist or cannot be read.
        """
        batch = ContentBatch(self._contents)
        walk = _Walk(known, batch, most, self._omit)
        top = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            complete = walk.folder(top, "", DEEPEST)
        finally:
            os.close(top)
            batch.write()
        if not complete:
            raise too_large(self._root, most)
        found = walk.found
        if len(found.files) != len(known) or any(path not in known for path in found.updated):
            for path, old in known.items():
                if path not in found.files:
                    found.updated.append(path)
                    found.changes.append(StateChange(path, old.state, None))
        return found


class _Walk:
    """One scan at work."""

    def __init__(self, known: Mapping[str, KnownFile], contents: ContentBatch, most: int, omit: str) -> None:
        self.found = WorkspaceScan()
        self._known = known
        self._contents = contents
        self._most = most
        self._omit = omit

    def folder(self, folder: int, prefix: str, levels: int) -> bool:
        """Scan an open folder and those below it. Return False if there are too many files."""
        files, known = self.found.files, self._known
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                path = prefix + name
                read = known.get(path)
                if (
                    read is None
                    or read.changed_ns != status.st_ctime_ns
                    or read.inode != status.st_ino
                    or not read.settled
                ):
                    read = self._read(folder, path, status, levels)
                    if read is None:
                        continue
                files[path] = read
                if len(files) > self._most:
                    return False
                if read.state.kind == "folder" and not self._below(folder, name, path, levels):
                    return False
        return True

    def _below(self, parent: int, name: str, path: str, levels: int) -> bool:
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except PermissionError:  # a program has changed its mode; its files are still there
            self.found.files.update((each, old) for each, old in self._known.items() if each.startswith(f"{path}/"))
            return True
        except OSError:  # it has been replaced
            return True
        try:
            return self.folder(folder, f"{path}/", levels - 1)
        finally:
            os.close(folder)

    def _read(self, folder: int, path: str, status: os.stat_result, levels: int) -> KnownFile | None:
        """Read a new or changed entry of an open folder. Return None if it is omitted, or does not exist any more."""
        name = path.rpartition("/")[2]
        if name.startswith(TEMPORARY) or path == self._omit:
            return None
        old, kind, mode = self._known.get(path), kind_of(status.st_mode), status.st_mode & _PERMISSIONS
        began = time.time_ns()
        try:
            if kind == "file":
                state, status = self._read_file(folder, name)
            elif kind == "link":
                state = FileState("link", 0, 0, os.fsencode(os.readlink(name, dir_fd=folder)))
            elif kind == "folder" and levels > 0:
                state = FileState("folder", mode)
            else:
                state = FileState("other", mode, 0, str(status.st_ino).encode())
        except OSError:  # it has been replaced or deleted
            return None
        settled = kind == "folder" or status.st_ctime_ns < began - RACY_NS
        new = KnownFile(state, status.st_ino, status.st_ctime_ns, settled)
        if old is not None and kind == "folder" and (old.state, old.inode) == (state, new.inode):
            return old  # the time of a folder changes with every entry, but only its mode counts
        self.found.updated.append(path)
        before = old.state if old is not None else None
        if before != state:
            self.found.changes.append(StateChange(path, before, state))
        return new

    def _read_file(self, folder: int, name: str) -> tuple[FileState, os.stat_result]:
        read = self._contents.keep(folder, name)
        if read is None:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            content = not_kept(status.st_size, status.st_mtime_ns, status.st_ino)
        else:
            content, status = read
        return FileState("file", status.st_mode & _PERMISSIONS, status.st_size, content), status
