"""Limits the size of the ZeroMQ messages that leave a box, without storing them. Standard library only.

A kernel's client parses messages from untrusted code. libzmq has no size limit: it would assemble a message of any
length, or with any number of parts, in the engine's memory. So process 1 parses the framing while it forwards the data,
and closes the connection at a message that is too long. Framing: ZMTP 3.1 (https://rfc.zeromq.org/spec/37/).
"""

MAX_MESSAGE_BYTES = 64 << 20
_GREETING, _FIRST_BYTE, _VERSION_AT, _VERSION = 64, 0xFF, 10, 3
_MORE, _LONG = 1, 2
_SHORT_HEAD, _LONG_HEAD = 2, 9


class Meter:
    """Checks the size of each message in one direction of a connection, while its bytes arrive."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        """Start measuring at the greeting.

        Args:
            most: The maximum size of a message in bytes: all of its parts, with the few bytes of each part's header.
        """
        self._most = most
        self._head = bytearray()
        self._wanted = _GREETING
        self._greeted = False
        self._body = 0  # bytes of the current part still to come
        self._message = 0
        self._more = False

    def passes(self, data: bytes) -> bool:
        """Return whether this data may be forwarded. After the first False, no more data may be forwarded."""
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
            # Older versions use other framing, and libzmq would switch to the version of the peer.
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
