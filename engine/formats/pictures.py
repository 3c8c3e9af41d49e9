"""Checks the type of pictures and PDFs by their signatures, and reads the size of pictures from their headers."""

import struct

_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
}
BINARY = frozenset(_SIGNATURES)
# JPEG markers of segments with the picture's size: SOF0 to SOF15, except DHT, JPG and DAC (ITU-T T.81, table B.1).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_START_OF_SCAN = 0xDA


def is_really(data: bytes, media_type: str) -> bool:
    """Return whether the bytes start with the signature of `media_type`, which must be in `BINARY`."""
    return data.startswith(_SIGNATURES[media_type])


def size_of(data: bytes, media_type: str) -> tuple[int, int] | None:
    """Return width and height in pixels, from the header; None if it does not state them."""
    try:
        if media_type == "image/png":
            return struct.unpack_from(">II", data, 16)
        if media_type == "image/gif":
            return struct.unpack_from("<HH", data, 6)
        if media_type == "image/jpeg":
            return _jpeg(data)
    except struct.error:  # truncated
        return None
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        fill, marker, length = struct.unpack_from(">BBH", data, at)
        if fill != 0xFF or marker == _START_OF_SCAN:  # noqa: PLR2004 -- every marker begins with this byte
            return None
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
