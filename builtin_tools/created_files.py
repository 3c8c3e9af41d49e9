"""Detects the files that a run created in a workspace."""

import os
from pathlib import Path

MOST_ENTRIES = 5_000  # larger workspaces are not searched; reading this many entries takes a few milliseconds
MOST_NAMED = 20  # files reported for one run


def files_in(root: Path) -> frozenset[str] | None:
    """Return the relative paths of the regular files below a folder. Blocks.

    Hidden files, symbolic links, `__pycache__` folders and names with unprintable characters are omitted.

    Returns:
        The paths, or None if the folder has more than `MOST_ENTRIES` entries.
    """
    found: list[str] = []
    folders = [""]
    remaining = MOST_ENTRIES
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    remaining -= 1
                    if remaining < 0:
                        return None
                    if entry.name.startswith((".", "__pycache__")) or not entry.name.isprintable():
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        found.append(path)
        except OSError:  # the folder has disappeared or is unreadable
            continue
    return frozenset(found)


def created_since(before: frozenset[str] | None, root: Path) -> tuple[str, ...]:
    """Return the paths of at most `MOST_NAMED` new files, the least deeply nested first. Blocks.

    Args:
        before: The result of `files_in` from before the run. If it is None, the result is empty.
        root: The workspace.
    """
    after = files_in(root) if before is not None else None
    if before is None or after is None:
        return ()
    return tuple(sorted(after - before, key=lambda path: (path.count("/"), path))[:MOST_NAMED])
