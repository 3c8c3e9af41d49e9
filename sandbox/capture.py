"""`Capture`: keeps the head and the tail of a stream in bounded memory, and counts the bytes dropped between them."""

from collections import deque


class Capture:
    """Keeps at most `limit` bytes of the data passed to `feed`: half from the start and half from the end.

    Attributes:
        seen: The number of bytes fed.
        dropped: The number of bytes between head and tail that were not kept.
    """

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._head_limit = limit // 2
        self._tail: deque[bytes] = deque()
        self._tail_held = 0
        self._tail_limit = limit - limit // 2
        self.seen = 0
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        self.seen += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_held += len(data)
            while self._tail_held - len(self._tail[0]) >= self._tail_limit:
                self._tail_held -= len(self._tail.popleft())
            self.dropped = self.seen - len(self._head) - min(self._tail_held, self._tail_limit)

    def value(self) -> bytes:
        """Return the bytes that were kept. Where bytes are missing, a line says how many."""
        tail = b"".join(self._tail)[-self._tail_limit :] if self._tail else b""
        gap = f"\n... {self.dropped} bytes dropped ...\n".encode() if self.dropped else b""
        return bytes(self._head) + gap + tail
