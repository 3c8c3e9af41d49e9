"""The engine's attach stream: two streams in one, and our frames in the first. Blocking; for threads.

Docker puts 8 bytes before each piece (Docker Engine API, "Attach to a container", stream format): one byte for the
stream, three of zero, a u32 length in network byte order.
"""

import struct
from typing import Protocol

from sandbox.docker.frames import Frame, Frames

_PIECE = struct.Struct("!BxxxI")
_STDERR = 2
_READ = 1 << 16
_READ_MANY = 1 << 18  # all that a socket holds: to be asked again costs more than its reading, beside a busy loop
_KEPT_STDERR = 4096


class Demultiplexer:
    """Bytes of the attach stream in, frames out. `stderr` keeps the last words of the container's own stderr."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._out = Frames()
        self.stderr = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Frames that are whole now. Raises ProtocolError."""
        self._raw += data
        found: list[Frame] = []
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
                found += self._out.feed(piece)
        del self._raw[:at]
        return found


class Socket(Protocol):
    """What a socket, a TLS socket and the channel of an SSH connection have in common."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def fileno(self) -> int: ...
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

    def fileno(self) -> int:
        """To wait for what `receive_some` takes."""
        return self._raw.fileno()

    def receive_some(self) -> list[Frame] | None:
        """Frames that have come whole, perhaps none; None at the end of the stream. Raises OSError, ProtocolError.

        To be called when `fileno` can be read: what TLS has read ahead is taken along, since waiting does not tell.
        """
        self._raw.settimeout(None)
        found: list[Frame] = []
        while True:
            try:
                data = self._raw.recv(_READ_MANY)
            except ConnectionResetError:
                data = b""
            if not data:
                return found or None
            found += self._streams.feed(data)
            if not getattr(self._raw, "pending", _nothing)():
                return found

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


def _nothing() -> int:
    return 0
