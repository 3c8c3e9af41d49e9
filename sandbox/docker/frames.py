"""Parses frames from a stream of bytes, at both ends of a container's standard streams. Standard library only."""

import json
from dataclasses import dataclass
from typing import Any

from sandbox import worker
from sandbox.nodes import MAX_NODES, too_many_nodes

# The largest frame is an answer: a value of 4 MiB, an error, and at most 64 MiB of collected files.
MAX_FRAME_BYTES = 80 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    header: dict[str, Any]
    body: bytes


class ProtocolError(Exception):
    """The data does not follow the protocol.

    Attributes:
        frames: The frames that arrived before the fault and that nobody has received yet.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.frames: list[Frame] = []


class Frames:
    """Converts bytes to frames (`sandbox.worker` defines the format)."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes | bytearray) -> list[Frame]:
        """Add received bytes; return the frames that are now complete.

        Raises:
            ProtocolError: The data does not follow the protocol.
        """
        self._bytes += data
        frames: list[Frame] = []
        at, size = 0, worker.HEADER.size
        while len(self._bytes) - at >= size:
            head, body = worker.unpack_head(bytes(self._bytes[at : at + size]))
            end = at + size + head + body
            try:
                _refuse_larger(head + body)
                if len(self._bytes) < end:
                    break
                header = _object(self._bytes[at + size : at + size + head])
            except ProtocolError as problem:
                problem.frames = frames
                raise
            frames.append(Frame(header, bytes(self._bytes[end - body : end])))
            at = end
        del self._bytes[:at]
        return frames


def _refuse_larger(frame_bytes: int) -> None:
    if frame_bytes > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {frame_bytes:,} bytes")


def _object(text: bytearray) -> dict[str, Any]:
    if too_many_nodes(bytes(text), 2 * MAX_NODES):  # twice the worker's own limit leaves room for the other fields
        raise ProtocolError("a header with too many values")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError(f"a header that is not JSON ({problem})") from None
    if not isinstance(header, dict):
        raise ProtocolError("a header that is not an object")
    return header
