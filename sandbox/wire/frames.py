"""Receives a job inside its box: a frame (its format is in `sandbox.worker`) and a descriptor of the workspace's mount.

Standard library only.
"""

import json
import socket

from sandbox import worker


def receive(channel: socket.socket) -> tuple[bytes, int]:
    """Return the job's whole frame, and the descriptor of the workspace's mount, or -1 if there is no workspace.

    Raises:
        EOFError: The stream ended before the frame was complete.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
    frame = bytearray(data or _nothing())
    while len(frame) < worker.HEADER.size:
        frame += channel.recv(1 << 16) or _nothing()
    total = worker.HEADER.size + sum(worker.unpack_head(bytes(frame[: worker.HEADER.size])))
    while len(frame) < total:
        frame += channel.recv(min(1 << 20, total - len(frame))) or _nothing()
    return bytes(frame), descriptors[0] if descriptors else -1


def _nothing() -> bytes:
    raise EOFError


def header_of(frame: bytes) -> worker.Message:
    """Return the header of a complete frame."""
    start = worker.HEADER.size
    length, _ = worker.unpack_head(frame[:start])
    header: worker.Message = json.loads(frame[start : start + length])
    return header
