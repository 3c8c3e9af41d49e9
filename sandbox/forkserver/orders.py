"""Messages between the engine, a supervisor and its template: one JSON object each, descriptors along with it.

Over sockets that keep message boundaries. Standard library only.
"""

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

MAX_BYTES = 1 << 16


def say(where: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one; when the other side is gone, nobody need hear it: the next read sees the end."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(where, [json.dumps(message).encode()], descriptors)


def hear(where: socket.socket) -> dict[str, Any] | None:
    """The next one; None when the other side is gone."""
    try:
        data = where.recv(MAX_BYTES)
    except ConnectionResetError:
        return None
    return json.loads(data) if data else None
