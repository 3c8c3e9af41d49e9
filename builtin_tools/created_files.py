"""Which files of a workspace came into being during a run."""

import os
from pathlib import Path

MOST_ENTRIES = 5_000  # of a workspace that is searched; reading the names of so many takes some milliseconds
MOST_NAMED = 20  # files of one run


def files_in(root: Path) -> frozenset[str] | None:
    """Paths of its plain files, relative to it; None where it has too many entries to be searched. Blocks.

    Nothing hidden, and nothing that a link leads to. Names that are not plain text on one line are left out.
    """
    found: list[str] = []
    folders = [""]
    room = MOST_ENTRIES
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    room -= 1
                    if room < 0:
                        return None
                    if entry.name.startswith((".", "__pycache__")) or not entry.name.isprintable():
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        found.append(path)
        except OSError:  # it is gone, or may not be read
            continue
    return frozenset(found)


def created_since(before: frozenset[str] | None, root: Path) -> tuple[str, ...]:
    """What is there now and was not before: the uppermost first, at most `MOST_NAMED`. Blocks."""
    after = files_in(root) if before is not None else None
    if before is None or after is None:
        return ()
    return tuple(sorted(after - before, key=lambda path: (path.count("/"), path))[:MOST_NAMED])
