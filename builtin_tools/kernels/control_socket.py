"""Finds the processes that run kernels and sends them requests through Unix sockets, for `knackbox kernel`.

Each connection carries one line of JSON in each direction. The sockets are in a folder of the home that only its owner
can enter. They are opened through a descriptor of that folder, because the name of a Unix socket is limited to 107
bytes and the path of a home may be longer. Sockets of dead processes are removed when they are found.
"""

import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_ASKED = 64 << 10  # maximum bytes of a request
MOST_ANSWERED = 64 << 20  # maximum bytes of an answer, which may be a notebook
DEADLINE_S = 15.0  # for one request and answer; the overview of variables takes at most 6 s
LIST_S = 3.0  # deadline for listing kernels, which contacts no kernel
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
SUFFIX = ".sock"
UNFINISHED = ".tmp-"  # prefix of a socket that is not listening yet; it is renamed once it listens
_NAME = re.compile(r"kernels-([0-9]+)-[0-9a-f]+\.sock")
_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_READ = 1 << 16


class PeerError(Exception):
    """A process did not answer, or refused the request. The message is one line."""


class Gone(PeerError):
    """No process listens at the socket."""


@dataclass(frozen=True, slots=True)
class ControlPeer:
    """A process that runs kernels and has a socket in the folder."""

    folder: Path
    name: str
    process: int

    def ask(self, request: Mapping[str, str], deadline_s: float = DEADLINE_S) -> Mapping[str, Any]:
        """Send a request and return the answer.

        Raises:
            Gone: No process listens any more.
            PeerError: There was no valid answer, or the process refused.
        """
        end = time.monotonic() + deadline_s
        try:
            with opened(self.folder) as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(deadline_s)
                line.connect(address(folder, self.name))
                if not same_user(line):
                    raise PeerError(f"process {self.process} belongs to another user.")
                line.sendall(json.dumps(dict(request)).encode() + b"\n")
                answer = json.loads(_line_of(line, end))
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise Gone(f"process {self.process} has ended.") from error
        except TimeoutError as error:
            raise PeerError(f"process {self.process} does not answer.") from error
        except (OSError, ValueError, RecursionError) as error:
            raise PeerError(f"process {self.process} cannot be contacted: {error}.") from error
        if not isinstance(answer, dict):
            raise PeerError(f"process {self.process} sent an answer that is not a JSON object.")
        if answer.get("ok") is not True:
            raise PeerError(f"process {self.process}: {str(answer.get('error'))[:500]}")
        return answer


def peers_in(folder: Path) -> list[ControlPeer]:
    """Return the processes that have a socket in the folder. Some may have died without removing their sockets."""
    if not folder.is_dir():
        return []
    with opened(folder):
        names = sorted(entry.name for entry in os.scandir(folder))
    found = []
    for name in names:
        process = process_of(name)
        if process is not None and not name.startswith(UNFINISHED):
            found.append(ControlPeer(folder, name, process))
        elif process is not None and not _is_alive(process):
            remove(folder, name)
    return found


def remove(folder: Path, name: str) -> None:
    """Remove the socket of a process that has ended."""
    with suppress(OSError):
        (folder / name).unlink()


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Open the folder and yield its descriptor.

    Raises:
        OSError: The folder cannot be opened, belongs to another user, or can be entered by others.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"{folder} must be accessible only to its owner, this user. Run: chmod 700 {folder}")
        yield descriptor
    finally:
        os.close(descriptor)


def address(folder: int, name: str) -> str:
    """Return the address of a socket in the folder with this descriptor."""
    return f"/proc/self/fd/{folder}/{name}"


def process_of(name: str) -> int | None:
    """Return the id of the process that created the socket with this name; None for any other file."""
    found = _NAME.fullmatch(name.removeprefix(UNFINISHED))
    return int(found[1]) if found else None


def same_user(peer: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user."""
    _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())


def _line_of(line: socket.socket, end: float) -> bytes:
    pieces, size = [], 0
    while True:
        line.settimeout(max(end - time.monotonic(), 1e-3))
        piece = line.recv(_READ)
        pieces.append(piece)
        size += len(piece)
        if not piece or piece.endswith(b"\n"):
            return b"".join(pieces)
        if size > MOST_ANSWERED:
            raise ValueError("the answer is too long")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
