"""Demultiplexes the Docker Engine's attach stream and parses the frames in it. Calls block, so use them in threads.

Docker puts 8 bytes before each piece of data (Docker Engine API, "Attach to a container", stream format): one byte for
the stream (standard output or error), three zero bytes, and a u32 length in network byte order.
"""

import struct
from typing import Protocol

from sandbox.docker.frames import Frame, Frames, ProtocolError

_PIECE = struct.Struct("!BxxxI")
_STDERR = 2
_READ = 1 << 16
_READ_MANY = 1 << 18  # as much as a socket holds: while the event loop is busy, extra calls cost more than the read
_KEPT_STDERR = 4096


class Demultiplexer:
    """Converts bytes of the attach stream to frames. `stderr` keeps the end of the container's own stderr."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._out = Frames()
        self.stderr = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes; return the frames that are now complete.

        Raises:
            ProtocolError: The data does not follow the protocol.
        """
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
                try:
                    found += self._out.feed(piece)
                except ProtocolError as problem:
                    problem.frames = found + problem.frames
                    raise
        del self._raw[:at]
        return found


class Socket(Protocol):
    """The methods that a socket, a TLS socket and an SSH channel share."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def fileno(self) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Channel:
    """The standard streams of one container.

    The channel keeps a reference to `owner`, because the connection closes when that object is garbage-collected.
    """

    def __init__(self, raw: Socket, owner: object) -> None:
        self._raw = raw
        self._owner = owner
        self._streams = Demultiplexer()

    @property
    def stderr(self) -> str:
        """The tail of the container's own stderr. Jobs do not write to it."""
        return self._streams.stderr.decode(errors="replace").strip()

    def send(self, data: bytes) -> None:
        """Send all of the data.

        Raises:
            OSError: The connection is lost.
        """
        self._raw.sendall(data)

    def receive(self, seconds: float | None = None) -> list[Frame] | None:
        """Return at least one frame; None at the end of the stream.

        Raises:
            TimeoutError: Nothing arrived in time.
            ProtocolError: The data does not follow the protocol.
        """
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
        """Return the descriptor to wait on before `receive_some`."""
        return self._raw.fileno()

    def receive_some(self) -> list[Frame] | None:
        """Return the frames that have arrived, perhaps none; None at the end of the stream.

        Call it when `fileno` is readable. It also returns data that TLS has read ahead, for which the descriptor does
        not become readable.

        Raises:
            OSError: The connection is lost.
            ProtocolError: The data does not follow the protocol.
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
        """Close the container's standard input, which ends the container."""
        try:
            self._raw.shutdown(1)
        except OSError:  # already closed
            return

    def close(self) -> None:
        response = getattr(self._owner, "_response", None)  # the SDK stores the response there to keep the socket open
        if response is not None:
            response.close()
        self._raw.close()


def _nothing() -> int:
    return 0
