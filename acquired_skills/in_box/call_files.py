"""Reads and writes the files in the working folder of a call, so that they can be copied to other boxes.

This module runs in the box. The working folder has the same path in every box. The tests run in this folder and have
their temporary folders in it.
"""

import shutil
from pathlib import Path
from typing import Any

TEMPORARY = "temporary"  # pytest's temporary folders; whether they exist depends on the order of the tests
MOST_FILES = 100
MOST_BYTES = 65_536


class TooManyFiles(Exception):
    """There are too many files to be copied with a call, or they are too large."""


def read_files(folder: Path) -> dict[str, str | None]:
    """Return the contents of the files below a folder as hexadecimal text, by path. A subfolder maps to None.

    Raises:
        TooManyFiles: There are too many files, or they are too large.
    """
    found: dict[str, str | None] = {}
    left = MOST_BYTES
    for path in sorted(folder.rglob("*")):
        if len(found) >= MOST_FILES:
            raise TooManyFiles
        name = str(path.relative_to(folder))
        if path.is_symlink() or name == TEMPORARY:
            continue  # pytest's link to the latest of its temporary folders
        if path.is_dir():
            found[name] = None
        elif path.is_file():
            left -= path.stat().st_size
            if left < 0:
                raise TooManyFiles
            found[name] = path.read_bytes().hex()
    return found


def clear_files(folder: Path) -> None:
    """Remove the files that a test left behind, except pytest's temporary folders, to keep tests independent."""
    for path in folder.iterdir():
        if path.name != TEMPORARY:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def write_files(folder: Path, files: dict[str, Any]) -> None:
    """Make the folder contain exactly these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    apply_changes(folder, {}, files)


def apply_changes(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Apply the differences between the files `before` and the files `after` to a folder."""
    for name in sorted(before.keys() - after.keys(), reverse=True):
        path = _inside(folder, name)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for name in sorted(after):
        path, content = _inside(folder, name), after[name]
        if before.get(name, 0) == content:
            continue
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes.fromhex(content))


def _inside(folder: Path, name: str) -> Path:
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name[:80]!r} is not below the folder")
    return folder / name
