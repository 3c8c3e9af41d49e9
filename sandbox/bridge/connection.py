"""`BridgeConnection`: one connection from a program in a box, as an asyncio protocol."""

import asyncio
from typing import Protocol, cast

from sandbox.bridge import frames

_UNREAD_BYTES = 1 << 20  # answers that the box has not read; beyond this its requests are not read either


class _Receiver(Protocol):
    def received(self, connection: "BridgeConnection", request: bytes) -> None: ...

    def lost(self, connection: "BridgeConnection") -> None: ...


class BridgeConnection(asyncio.Protocol):
    """Reads requests and writes answers. A stream that cannot be read any further is closed."""

    def __init__(self, bridge: _Receiver, request_bytes: int) -> None:
        self._bridge = bridge
        self._reader = frames.FrameReader(request_bytes)
        self._transport: asyncio.Transport | None = None
        self._full = self._held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)

    def data_received(self, data: bytes) -> None:
        try:
            for request in self._reader.feed(data):
                self._bridge.received(self, request)
        except frames.BadFrame:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's signature)
        self._transport = None
        self._bridge.lost(self)

    def pause_writing(self) -> None:
        self._full = True
        self._read_or_not()

    def resume_writing(self) -> None:
        self._full = False
        self._read_or_not()

    def hold(self) -> None:
        """Read no further requests until `go_on`."""
        self._held = True
        self._read_or_not()

    def go_on(self) -> None:
        """Read requests again."""
        self._held = False
        self._read_or_not()

    def send(self, answer: bytes) -> None:
        """Send an answer, unless the connection is lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames.pack(answer))

    def close(self) -> None:
        """Close the connection without waiting for the box to read what was sent."""
        if self._transport is not None:
            self._transport.abort()

    def _read_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._full or self._held:
            self._transport.pause_reading()
        elif not self._transport.is_reading():
            self._transport.resume_reading()
