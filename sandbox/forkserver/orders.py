"""Messages between the engine, a supervisor and its template: one JSON object each, with file descriptors attached.

The messages travel over sockets that keep message boundaries. Standard library only.
"""

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

MAX_BYTES = 1 << 16


def send(where: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message. Does nothing when the other side is gone: the next `receive` then returns None."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(where, [json.dumps(message).encode()], descriptors)


def receive(where: socket.socket) -> dict[str, Any] | None:
    """Return the next message; None when the other side is gone."""
    return receive_with(where)[0]


def receive_with(where: socket.socket, most: int = 0) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next message, or None when the other side is gone, and at most this many descriptors."""
    try:
        data, descriptors, _, _ = socket.recv_fds(where, MAX_BYTES, most, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None, []
    return json.loads(data) if data else None, descriptors
