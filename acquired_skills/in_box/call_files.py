"""In the box: the files around a call, which go with it from one box to the next.

They are those of one folder, in which the tests run and have their temporary folders: at the same path in every box.
"""

import shutil
from pathlib import Path
from typing import Any

TEMPORARY = "temporary"  # where pytest makes temporary folders; there or not, by which test came first
MOST_FILES = 100
MOST_BYTES = 65_536


class TooMuch(Exception):
    """More files, or larger ones, than go with a call."""


def seen(folder: Path) -> dict[str, str | None]:
    """The files below it, by path, as hexadecimal text; None for a folder. Raises TooMuch."""
    found: dict[str, str | None] = {}
    left = MOST_BYTES
    for path in sorted(folder.rglob("*")):
        if len(found) >= MOST_FILES:
            raise TooMuch
        name = str(path.relative_to(folder))
        if path.is_symlink() or name == TEMPORARY:
            continue  # pytest's own, to the latest of its temporary folders
        if path.is_dir():
            found[name] = None
        elif path.is_file():
            left -= path.stat().st_size
            if left < 0:
                raise TooMuch
            found[name] = path.read_bytes().hex()
    return found


def clear(folder: Path) -> None:
    """Take away what a test left, but not pytest's own, so that the next finds what it would find by itself."""
    for path in folder.iterdir():
        if path.name != TEMPORARY:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def put(folder: Path, files: dict[str, Any]) -> None:
    """Make it hold exactly these."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    change(folder, {}, files)


def change(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Make of what was there before what is there after."""
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
