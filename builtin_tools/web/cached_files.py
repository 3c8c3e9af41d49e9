"""`CachedFiles`: a folder of JSON files with a limited size, which several processes may use."""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.stores.atomic import remove_leftovers, write_atomic

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_SUFFIX = ".json"
_SLACK = 16  # a sixteenth of the limit may be written before the folder is measured again


@dataclass(frozen=True, slots=True)
class _CachedFile:
    path: Path
    used: float
    size: int


class CachedFiles:
    """Stores JSON objects by names of 64 hexadecimal digits. The methods block.

    Files are written atomically. If the folder becomes too large, those that were not used for the longest time are
    removed. A damaged file is removed when it is read.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Create the store. The folder is created with the first file.

        Args:
            folder: Contains nothing else.
            most_bytes: The limit of the size of all files. It may be exceeded by one file that is being written.
        """
        self._folder = folder
        self._most = most_bytes
        self._written: int | None = None  # since the folder was measured; None before the first time

    def get(self, name: str) -> dict[str, Any] | None:
        """Return an object, and note that it was used; None if there is none, or its file is damaged."""
        path = self._path(name)
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            self.remove(name)
            return None
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it
            os.utime(path)
        return found if isinstance(found, dict) else None

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Store an object, unless it alone is larger than the limit.

        Raises:
            OSError: The file cannot be written. Nothing was changed.
        """
        data = json.dumps(value, ensure_ascii=False).encode()
        if len(data) > self._most:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(name)
        write_atomic(path, data)
        self._written = None if self._written is None else self._written + len(data)
        if self._written is None or self._written > self._most // _SLACK:
            self._trim()
            self._written = 0

    def remove(self, name: str) -> None:
        """Remove an object, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not a name of 64 hexadecimal digits")
        return self._folder / f"{name}{_SUFFIX}"

    def _trim(self) -> None:
        """Remove what killed processes left behind, and what was not used for the longest time."""
        remove_leftovers(self._folder)
        files = sorted(self._files(), key=lambda each: each.used)
        excess = sum(each.size for each in files) - self._most + self._most // _SLACK
        for each in files[:-1]:
            if excess <= 0:
                break
            each.path.unlink(missing_ok=True)
            excess -= each.size

    def _files(self) -> list[_CachedFile]:
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        found.append(_CachedFile(Path(entry.path), status.st_mtime, status.st_size))
        return found
