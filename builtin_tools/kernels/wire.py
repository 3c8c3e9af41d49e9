"""What `knackbox kernel` and a process with kernels say to each other: one line of JSON each way, per connection.

The sockets lie in a folder of the home that only its owner can enter. They are reached through a descriptor of that
folder, since the name of a Unix socket may not be longer than 107 bytes, and a home's path may.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_ASKED = 64 << 10  # bytes of a request
MOST_ANSWERED = 64 << 20  # of an answer: a notebook is one
DEADLINE_S = 15.0  # of one exchange; the overview of variables takes 6 s at most
LIST_S = 3.0  # of a list, which asks no kernel anything
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
SUFFIX = ".sock"
UNFINISHED = ".tmp-"  # a socket that does not listen yet; it gets its name when it does
_NAME = re.compile(r"kernels-([0-9]+)-[0-9a-f]+\.sock")
_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """The folder as a descriptor. Raises OSError, also for one that others may enter or that is somebody else's."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"{folder} is open to others: chmod 700 it")
        yield descriptor
    finally:
        os.close(descriptor)


def address(folder: int, name: str) -> str:
    """Of a socket in the folder that is open as this descriptor."""
    return f"/proc/self/fd/{folder}/{name}"


def process_of(name: str) -> int | None:
    """The process that made the socket of this name; None for a name that is none of ours."""
    found = _NAME.fullmatch(name.removeprefix(UNFINISHED))
    return int(found[1]) if found else None


def same_user(peer: socket.socket) -> bool:
    """Whether the other side belongs to this user, as the kernel says."""
    _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())
