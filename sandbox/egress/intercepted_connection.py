"""`InterceptedConnection`: one connection from a box to a destination that has secrets."""

import asyncio
import contextlib
import socket
import ssl

from sandbox.egress.http_exchange import ExchangeSide, HttpExchange
from sandbox.egress.interception import InterceptedDestination
from sandbox.egress.relay import ENDED
from sandbox.egress.rules import EgressRules

_STREAM_LIMIT = 64 << 10
_MOST_OF_A_HEAD = 64 << 10
_FAREWELL_S, _FAREWELL_BYTES = 1.0, 1 << 20
_SHUTDOWN_S = 1.0


class InterceptedConnection:
    """One connection. The caller owns and closes the sockets.

    Attributes:
        sent: Bytes of HTTP that were sent to the destination.
        received: Bytes of HTTP that entered the box.
        broken: Whether the box must see that the connection broke off.
        flushed: Set once everything the box has sent is forwarded.
    """

    def __init__(self, found: InterceptedDestination, rules: EgressRules, flushed: asyncio.Event) -> None:
        self._found = found
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._sides: list[ExchangeSide] = []
        self._clock: asyncio.Timeout | None = None
        self._deadline = 0.0
        self.broken = True
        self.flushed = flushed

    @property
    def sent(self) -> int:
        return self._sides[1].written if len(self._sides) > 1 else 0

    @property
    def received(self) -> int:
        return self._sides[0].written if self._sides else 0

    async def run(self, inside: socket.socket, outside: socket.socket, first: bytes, deadline: float) -> str:
        """Handle one request. Return a phrase that says how the connection ended.

        Args:
            inside: The socket of the connection from the box.
            outside: The socket of the connection to the destination.
            first: What the box has sent already.
            deadline: The time at which the connection is ended in any case, on the running loop's clock.
        """
        self._deadline = deadline
        try:
            async with asyncio.timeout(None) as self._clock:
                self._touch()
                return await self._exchange(inside, outside, first)
        except TimeoutError:
            late = self._loop.time() >= deadline
            return "the connection took too long" if late else f"nothing was sent for {self._rules.idle_s:g} s"
        except ssl.SSLError as problem:
            return f"the connection broke: {problem.reason or 'TLS failed'}"
        except OSError as problem:
            return f"the connection broke: {problem}"
        finally:
            for side in self._sides:
                side.writer.transport.abort()

    async def _exchange(self, inside: socket.socket, outside: socket.socket, first: bytes) -> str:
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        if self._found.tls and first:
            return "the client sent data before its tunnel was open"
        try:
            box = await self._open_inside(inside)
        except OSError as problem:
            why = getattr(problem, "reason", None) or problem
            host = self._found.destination.host
            return f"TLS with the program failed ({why}); it must ask for {host} and trust the file in SSL_CERT_FILE"
        state = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_OF_A_HEAD)
        if first:
            state.receive_data(first)
        box_side = ExchangeSide(*box, state, self._touch)
        self._sides.append(box_side)
        try:
            there = await self._open_outside(outside)
        except OSError as problem:
            why = getattr(problem, "verify_message", "") or getattr(problem, "reason", None) or problem
            return f"TLS with {self._found.destination} failed: {why}"
        state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_OF_A_HEAD)
        far_side = ExchangeSide(*there, state, self._touch)
        self._sides.append(far_side)
        reason = await HttpExchange(box_side, far_side, self._found, self.flushed).run()
        self.broken = False
        await self._say_goodbye(*box, refused=bool(reason))
        return reason or ENDED

    async def _open_inside(self, inside: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._found.tls:
            return await asyncio.open_connection(sock=inside.dup(), limit=_STREAM_LIMIT)
        context = await self._found.contexts.server_context(self._found.destination.host)
        reader = asyncio.StreamReader(limit=_STREAM_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol,
            inside.dup(),
            ssl=context,
            ssl_handshake_timeout=self._rules.head_s,
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _open_outside(self, outside: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._found.tls:
            return await asyncio.open_connection(sock=outside.dup(), limit=_STREAM_LIMIT)
        return await asyncio.open_connection(
            sock=outside.dup(),
            limit=_STREAM_LIMIT,
            ssl=await self._found.contexts.client_context(),
            server_hostname=self._found.destination.host,
            ssl_handshake_timeout=self._rules.connect_s,
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )

    @staticmethod
    async def _say_goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, refused: bool) -> None:
        """Close the box's side in order. After a refusal, first read for a moment what the client still sends.

        Closing a socket with unread data would reset the connection, and the client would not see the refusal.
        """
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                if refused:
                    if writer.can_write_eof():
                        writer.write_eof()
                    left = _FAREWELL_BYTES
                    while left > 0 and (data := await reader.read(_STREAM_LIMIT)):
                        left -= len(data)
                writer.close()
                await writer.wait_closed()

    def _touch(self) -> None:
        """Note that data was forwarded, which postpones the end of an idle connection."""
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(min(self._deadline, self._loop.time() + self._rules.idle_s))
