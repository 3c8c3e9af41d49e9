"""How large the messages are that come out of a box: ZeroMQ's framing, followed and not kept. Standard library only.

A client of a kernel parses what untrusted code sends, and libzmq sets no bound of its own: one message of any length,
or of any number of parts, would be put together in the engine's memory. So process 1 reads along and cuts the
connection. Framing: ZMTP 3.1 (https://rfc.zeromq.org/spec/37/).
"""

MAX_MESSAGE_BYTES = 64 << 20
_GREETING, _FIRST_BYTE, _VERSION_AT, _VERSION = 64, 0xFF, 10, 3
_MORE, _LONG = 1, 2
_SHORT_HEAD, _LONG_HEAD = 2, 9


class Meter:
    """Of one direction of one connection."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        """most: bytes of one message, all of its parts together with a few for the head of each."""
        self._most = most
        self._head = bytearray()
        self._wanted = _GREETING
        self._greeted = False
        self._body = 0  # bytes of the present part still to come
        self._message = 0
        self._more = False

    def passes(self, data: bytes) -> bool:
        """Whether this may be handed on; after the first False nothing may."""
        at = 0
        while at < len(data):
            if self._body:
                step = min(self._body, len(data) - at)
                self._body -= step
                at += step
            else:
                step = min(self._wanted - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                at += step
                if len(self._head) == self._wanted and not self._take_head():
                    return False
        return True

    def _take_head(self) -> bool:
        head = self._head
        if not self._greeted:
            # An older version frames otherwise, and libzmq would follow whatever the peer speaks.
            self._greeted = head[0] == _FIRST_BYTE and head[_VERSION_AT] == _VERSION
            head.clear()
            self._wanted = _SHORT_HEAD
            return self._greeted
        if head[0] & _LONG and len(head) < _LONG_HEAD:
            self._wanted = _LONG_HEAD
            return True
        if not self._more:
            self._message = 0
        self._more = bool(head[0] & _MORE)
        self._body = int.from_bytes(head[1:])
        self._message += self._body + len(head)
        head.clear()
        self._wanted = _SHORT_HEAD
        return self._message <= self._most
