"""Unix sockets through which clients on this machine reach a job that is a server in a container.

A container has no network, and its file system may be on another machine. So the sockets are in a folder of this user,
and their data travels over the container's standard streams (`sandbox.docker.flows`). The folder is removed when the
job ends. Its owner keeps it locked, so that a later process can detect and remove the folder of a dead owner.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.wire.paths import INLET_NAME

_PREFIX = "knackbox-inlets-"
_BACKLOG = 16


class KernelSockets:
    """The listening sockets, one for each port of the job's server, in order. A context manager that closes them."""

    def __init__(self, count: int) -> None:
        """Create the folder and the listening sockets.

        Args:
            count: The number of ports of the job's server.

        Raises:
            OSError: The folder or a socket cannot be created.
        """
        path, self._folder = _locked_folder()
        # The folder is also removed if the interpreter exits before `close`. A fork of this process does not own it.
        self._remove = weakref.finalize(self, _remove, path, os.getpid())
        self.listening: list[socket.socket] = []
        try:
            for index in range(1, count + 1):
                end = socket.socket(socket.AF_UNIX)
                self.listening.append(end)
                end.bind(
                    f"/proc/self/fd/{self._folder}/{INLET_NAME}-{index}"
                )  # the path itself may be too long for a socket
                end.listen(_BACKLOG)
                end.setblocking(False)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def folder(self) -> int:
        """Return a descriptor of the folder, which the caller closes."""
        return os.open(f"/proc/self/fd/{self._folder}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Stop listening and remove the folder."""
        for end in self.listening:
            end.close()
        self._remove()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def sweep() -> None:
    """Remove the socket folders that killed processes left behind."""
    for path in _base().glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # the folder belongs to another user, is in use, or has been removed
            folder = _open(path)
            try:
                if os.fstat(folder).st_uid == os.geteuid():
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(folder)


def _locked_folder() -> tuple[Path, int]:
    """Create a folder for this user and lock it.

    If `sweep` removes the folder before it is locked, create another one.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_base()))
        folder = -1
        try:
            folder = _open(path)
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(folder).st_nlink:
                return path, folder
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if folder >= 0:
            os.close(folder)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _base() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
