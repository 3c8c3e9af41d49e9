"""Where the pictures of a cell go: a visible folder of the workspace, under names of ours."""

import secrets

from builtin_tools.kernels.bundle import File
from builtin_tools.kernels.shown import Keep
from engine.stores.workspace import FolderWorkspace

FOLDER = "outputs"
_TRIES = 3


def keeper(workspace: FolderWorkspace, kernel: str, cell: int) -> Keep:
    """Writes `outputs/<kernel>-<cell>-<n>.<type>`. Never in place of another file: that name then gets a random end."""
    count = 0

    def keep(file: File) -> str:
        nonlocal count
        count += 1
        stem = f"{FOLDER}/{kernel}-{cell}-{count}"
        return write_new(workspace, stem, file.suffix, file.data)

    return keep


def write_new(workspace: FolderWorkspace, stem: str, suffix: str, data: bytes) -> str:
    """The path it was written to. Raises OSError, WorkspaceError."""
    path = stem + suffix
    for _ in range(_TRIES):
        try:
            workspace.write_new(path, data)
        except FileExistsError:
            path = f"{stem}-{secrets.token_hex(3)}{suffix}"
        else:
            return path
    raise FileExistsError(f"{stem}{suffix} exists already")
