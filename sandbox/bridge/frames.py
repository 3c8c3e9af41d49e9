"""Frames of a bridge: a length of four bytes in network byte order, then that many bytes. The box is not trusted."""

import struct
from collections.abc import Iterator

_LENGTH = struct.Struct("!I")


class BadFrame(ValueError):
    """The stream cannot be read any further."""


def pack(payload: bytes) -> bytes:
    """Return one frame."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Splits a stream into the payloads of its frames. It holds at most one frame and one read of the socket."""

    def __init__(self, most_bytes: int) -> None:
        """Create a reader that refuses payloads of more than `most_bytes`."""
        self._most = most_bytes
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads that are complete with this data.

        Raises:
            BadFrame: A frame says that it is empty or too long. Its payload is not waited for.
        """
        self._held += data
        start = 0
        try:
            while len(self._held) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._held, start)
                if not 0 < length <= self._most:
                    raise BadFrame(f"A frame of {length:,} bytes; 1 to {self._most:,} are allowed.")
                end = start + _LENGTH.size + length
                if len(self._held) < end:
                    return
                payload = bytes(memoryview(self._held)[start + _LENGTH.size : end])
                start = end
                yield payload
        finally:
            del self._held[:start]
