"""Removes what a run of the tests leaves behind, so that the next run in the same box cannot learn from it.

This module runs in the box. A run is a fork of the worker. It may leave files outside its working folder, and
processes that outlive it.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (in the box)


class Traces:
    """Restores the files in a box to their state before the first run, and ends leftover processes."""

    def __init__(self, folder: Path, kept: Path) -> None:
        """Remember the files, and make this process the parent of all processes that runs leave behind.

        Args:
            folder: The job's folder.
            kept: A folder whose files are left alone.
        """
        folders = [each.resolve() for each in (folder, Path(tempfile.gettempdir()), _SHARED_MEMORY) if each.is_dir()]
        self._kept = kept.resolve()
        self._folders = [each for each in folders if not any(other in each.parents for other in folders)]
        self._contents = {path: _content(path) for each in self._folders for path in self._below(each)}
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def remove(self) -> None:
        """End all processes that the last run has left behind, and restore the files.

        Raises:
            OSError: Something could not be removed.
        """
        _end_children()
        for folder in self._folders:
            for path in reversed(list(self._below(folder))):
                if self._contents.get(path, ()) != _content(path):
                    _remove(path)
        for path, (mode, data) in self._contents.items():
            if not path.exists():
                if data is None:
                    path.mkdir()
                else:
                    path.write_bytes(data)
                path.chmod(mode)

    def _below(self, folder: Path) -> Iterator[Path]:
        """Yield everything below a folder except the kept folder. Each folder comes before its contents."""
        for path in sorted(folder.iterdir()):
            if path == self._kept:
                continue
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from self._below(path)


def _content(path: Path) -> tuple[int, bytes | None]:
    """Return the mode of a file or folder, and the data if it is a readable file."""
    mode = path.lstat().st_mode
    return stat.S_IMODE(mode), path.read_bytes() if stat.S_ISREG(mode) and mode & stat.S_IRUSR else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.chmod(stat.S_IRWXU)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _end_children() -> None:
    """Kill all children of this process. They include descendants whose own parents have ended."""
    for _ in range(1_000):  # a fork bomb may be faster; then the limits of the box end it
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
    raise OSError("the tests keep starting processes")


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except FileNotFoundError:  # the kernel does not list child processes
        return []
    return [int(each) for each in text.split()]
