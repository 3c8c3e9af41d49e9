"""Measures the memory of a kernel's box, from outside."""

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_PROCESSES = 1000


def memory_of(place: str) -> int | None:
    """Return the resident bytes of all processes of the box whose sockets are at `place` (`SocketLocation.path`).

    Memory that the processes share with their template is counted once per process.
    """
    try:
        root = _listener(f"{place}-1")
        return sum(map(_resident, _tree(root))) if root else None
    except OSError:
        return None


def _listener(path: str) -> int:
    """Return the pid, outside the box, of the process that listens on this Unix socket: process 1 of the box."""
    with socket.socket(socket.AF_UNIX) as asker:
        asker.setblocking(False)
        asker.connect(path)
        pid: int = _CREDENTIALS.unpack(asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        return pid


def _tree(root: int) -> Iterator[int]:
    waiting, seen = [root], 0
    while waiting and seen < _MOST_PROCESSES:
        pid = waiting.pop()
        seen += 1
        yield pid
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:  # the process has ended
            continue


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
