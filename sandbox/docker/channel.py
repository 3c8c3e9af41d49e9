"""The engine's attach stream: two streams in one, and our frames in the first. Blocking; for threads.

Docker puts 8 bytes before each piece (Docker Engine API, "Attach to a container", stream format): one byte for the
stream, three of zero, a u32 length in network byte order.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox import worker

_PIECE = struct.Struct("!BxxxI")
_STDERR = 2
_READ = 1 << 16
_KEPT_STDERR = 4096
# The largest frame is an answer: a value of 4 MiB, an error, and at most 64 MiB of collected files.
MAX_FRAME_BYTES = 80 << 20


class ProtocolError(Exception):
    """What came is not what process 1 of a container sends."""


@dataclass(frozen=True, slots=True)
class Frame:
    header: dict[str, Any]
    body: bytes


class Demultiplexer:
    """Bytes of the attach stream in, frames out. `stderr` keeps the last words of the container's own stderr."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._out = bytearray()
        self.stderr = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Frames that are whole now. Raises ProtocolError."""
        self._raw += data
        at = 0
        while len(self._raw) - at >= _PIECE.size:
            stream, length = _PIECE.unpack_from(self._raw, at)
            if len(self._raw) - at - _PIECE.size < length:
                break
            at += _PIECE.size
            piece = self._raw[at : at + length]
            at += length
            if stream == _STDERR:
                self.stderr = (self.stderr + piece)[-_KEPT_STDERR:]
            else:
                self._out += piece
        del self._raw[:at]
        return self._frames()

    def _frames(self) -> list[Frame]:
        frames: list[Frame] = []
        at, size = 0, worker.HEADER.size
        while len(self._out) - at >= size:
            head, body = worker.unpack_head(bytes(self._out[at : at + size]))
            if head + body > MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {head + body:,} bytes")
            end = at + size + head + body
            if len(self._out) < end:
                break
            frames.append(Frame(_object(self._out[at + size : at + size + head]), bytes(self._out[end - body : end])))
            at = end
        del self._out[:at]
        return frames


def _object(text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ProtocolError(f"a header that is not JSON ({problem})") from None
    if not isinstance(header, dict):
        raise ProtocolError("a header that is not an object")
    return header


class Socket(Protocol):
    """What a socket, a TLS socket and the channel of an SSH connection have in common."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Channel:
    """One container's standard streams. `owner` is kept: with it the connection would be closed."""

    def __init__(self, raw: Socket, owner: object) -> None:
        self._raw = raw
        self._owner = owner
        self._streams = Demultiplexer()

    @property
    def stderr(self) -> str:
        """The last words of the container itself; jobs print elsewhere."""
        return self._streams.stderr.decode(errors="replace").strip()

    def send(self, data: bytes) -> None:
        """Raises OSError."""
        self._raw.sendall(data)

    def receive(self, seconds: float | None = None) -> list[Frame] | None:
        """At least one frame; None at the end of the stream. Raises TimeoutError, ProtocolError."""
        self._raw.settimeout(seconds)
        while True:
            try:
                data = self._raw.recv(_READ)
            except ConnectionResetError:
                return None
            if not data:
                return None
            if frames := self._streams.feed(data):
                return frames

    def end_input(self) -> None:
        """The container sees the end of its standard input, and ends."""
        try:
            self._raw.shutdown(1)
        except OSError:  # it is closed already
            return

    def close(self) -> None:
        response = getattr(self._owner, "_response", None)  # the SDK keeps it there, so that it is not closed early
        if response is not None:
            response.close()
        self._raw.close()
