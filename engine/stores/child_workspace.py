"""The workspaces of child runs: a folder for each, outside the workspace of the run that started it.

A folder within the parent's workspace could be replaced with a link by the code of the parent.
"""

import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from engine.stores.workspace import FolderWorkspace, WorkspaceError

_NAME = re.compile(r"[0-9a-f]{1,32}-[0-9]{1,6}")
MOST_FILES = 2_000  # of one copy
MOST_BYTES = 200_000_000
_NEW_S = 24 * 3600.0


def child_workspace(folder: Path, name: str) -> Path:
    """Return the workspace of a child run.

    Args:
        folder: The folder with the workspaces of all child runs.
        name: The id of the run.

    Raises:
        WorkspaceError: The name is not the id of a child run.
    """
    if not _NAME.fullmatch(name):
        raise WorkspaceError(f"{name[:50]!r} is not the id of a child run.")
    return folder / name


def copy_files(source: FolderWorkspace, target: FolderWorkspace, below: str = "", *, omit: str = "") -> list[str]:
    """Copy all files of a workspace, and return their paths in the other one. Links are omitted.

    Args:
        source: The workspace.
        target: The other workspace.
        below: The folder in `target` to copy to.
        omit: A folder in `source` to omit.

    Raises:
        WorkspaceError: There are too many files, or they are too large.
    """
    copied: list[str] = []
    left = MOST_BYTES
    for entry in source.walk():
        path = PurePosixPath(entry.path)
        if entry.kind != "file" or (omit and path.parts[0] == omit):
            continue
        left -= entry.size
        if len(copied) >= MOST_FILES or left < 0:
            raise WorkspaceError(
                f"The workspace has more than {MOST_FILES} files or {MOST_BYTES // 10**6} MB, so it cannot be copied."
            )
        copied.append(str(PurePosixPath(below) / path))
        target.write(copied[-1], source.read(entry.path, MOST_BYTES))
    return copied


def remove_if_empty(folder: Path, name: str) -> None:
    """Delete the workspace of a child run if there is nothing in it."""
    with suppress(OSError):
        child_workspace(folder, name).rmdir()


def remove_forgotten(folder: Path, known: Callable[[str], bool]) -> None:
    """Delete the workspaces of child runs that nobody knows any more.

    Args:
        folder: The folder with the workspaces of all child runs.
        known: Returns whether there still is a child run with this id.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        # The files of a new one are copied before its child run is stored.
        if time.time() - path.stat().st_mtime > _NEW_S and not known(path.name):
            shutil.rmtree(path, ignore_errors=True)
