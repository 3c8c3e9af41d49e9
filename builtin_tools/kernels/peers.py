"""The processes of one home that have kernels, asked one after the other. Sockets of dead ones are removed on sight."""

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builtin_tools.kernels import wire

_READ = 1 << 16


class PeerError(Exception):
    """A process did not answer, or said why it cannot; one line."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A process with a socket in the folder."""

    folder: Path
    name: str
    process: int

    def ask(self, request: Mapping[str, str], deadline_s: float = wire.DEADLINE_S) -> Mapping[str, Any]:
        """Its answer. Raises PeerError, and Gone when nobody listens any more."""
        end = time.monotonic() + deadline_s
        try:
            with wire.opened(self.folder) as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(deadline_s)
                line.connect(wire.address(folder, self.name))
                if not wire.same_user(line):
                    raise PeerError(f"process {self.process} is another user's.")
                line.sendall(json.dumps(dict(request)).encode() + b"\n")
                answer = json.loads(_line_of(line, end))
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise Gone(f"process {self.process} has ended.") from error
        except TimeoutError as error:
            raise PeerError(f"process {self.process} does not answer.") from error
        except (OSError, ValueError, RecursionError) as error:
            raise PeerError(f"process {self.process} cannot be asked: {error}.") from error
        if not isinstance(answer, dict):
            raise PeerError(f"process {self.process} gave an answer that is none.")
        if answer.get("ok") is not True:
            raise PeerError(f"process {self.process}: {str(answer.get('error'))[:500]}")
        return answer


class Gone(PeerError):
    """Nobody listens at the socket."""


def peers_in(folder: Path) -> list[Peer]:
    """All with a socket; those that died without closing it are not known before they are asked."""
    if not folder.is_dir():
        return []
    with wire.opened(folder):
        names = sorted(entry.name for entry in os.scandir(folder))
    found = []
    for name in names:
        process = wire.process_of(name)
        if process is not None and not name.startswith(wire.UNFINISHED):
            found.append(Peer(folder, name, process))
        elif process is not None and not _lives(process):
            remove(folder, name)
    return found


def remove(folder: Path, name: str) -> None:
    """Remove a socket nobody listens at."""
    with suppress(OSError):
        (folder / name).unlink()


def _line_of(line: socket.socket, end: float) -> bytes:
    pieces, size = [], 0
    while True:
        line.settimeout(max(end - time.monotonic(), 1e-3))
        piece = line.recv(_READ)
        pieces.append(piece)
        size += len(piece)
        if not piece or piece.endswith(b"\n"):
            return b"".join(pieces)
        if size > wire.MOST_ANSWERED:
            raise ValueError("the answer is too long")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
