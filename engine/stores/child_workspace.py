"""The workspaces of child runs: a folder for each, outside the workspace of the run that started it.

A folder within the parent's workspace could be replaced with a link by the code of the parent.
"""

import re
import shutil
from pathlib import Path, PurePosixPath

from engine.stores.workspace import FolderWorkspace, WorkspaceError

_NAME = re.compile(r"[0-9a-f]{1,32}-[0-9]{1,6}")
MOST_FILES = 2_000  # of one copy
MOST_BYTES = 200_000_000


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


def remove_child_workspace(folder: Path, name: str) -> None:
    """Delete the workspace of a child run. It is no error if there is none."""
    shutil.rmtree(child_workspace(folder, name), ignore_errors=True)
