"""`Exchange`: handles one connection out of a box, from the accepted socket to the connection's journal entry."""

import asyncio
import contextlib
import logging
import socket

from sandbox.contract import Connection, Destination
from sandbox.egress import heads
from sandbox.egress.addresses import Address
from sandbox.egress.intercepted_connection import InterceptedConnection
from sandbox.egress.interception import InterceptedDestination, Interception
from sandbox.egress.journal import Journal
from sandbox.egress.relay import ENDED, Relay, reset_on_close
from sandbox.egress.resolve import NameNotResolved, Refused, Resolver, pin
from sandbox.egress.rules import EgressRules, canonical_host
from sandbox.egress.stray import NOT_LISTED

_READ = 4096
_FAREWELL_S, _FAREWELL_BYTES = 1.0, 1 << 20
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_BAD_REQUEST, _FORBIDDEN, _BAD_GATEWAY = 400, 403, 502
JOB_ENDED = "the job ended"
_NEEDS_TLS = "secrets are sent to it over TLS only; use https"
_log = logging.getLogger(__name__)


class Exchange:
    """Handles one connection out of a box. Owns the socket `inside`, and closes it at the end of `run`.

    `allowed` are the job's destinations in canonical form. Connections to destinations that have secrets are handled by
    an `InterceptedConnection`, and all others by a `Relay`.
    """

    def __init__(
        self,
        inside: socket.socket,
        allowed: frozenset[Destination],
        rules: EgressRules,
        resolver: Resolver,
        journal: Journal,
        *,
        interception: Interception | None = None,
    ) -> None:
        self._inside = inside
        self._allowed = allowed
        self._rules = rules
        self._resolver = resolver
        self._journal = journal
        self._interception = interception
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + rules.total_s
        self._relay: Relay | None = None
        self.finished = asyncio.Event()  # set once everything the box has sent is forwarded

    async def run(self, outlet: Destination | None) -> None:
        """Handle the connection. `outlet` is the socket's destination; None for the proxy, whose clients name one."""
        try:
            await (self._as_proxy() if outlet is None else self._straight(outlet))
        except OSError as problem:  # the connection to the box failed before there was anything to forward
            self._note(outlet, allowed=False, reason=f"the client disconnected: {problem.strerror or problem}")
        except Exception:  # noqa: BLE001  (a bug of ours ends one connection, and is logged)
            _log.exception("an egress connection failed")
            self._note(outlet, allowed=False, reason="the proxy failed; the engine's log has the traceback")
            reset_on_close(self._inside)
        finally:
            self._inside.close()
            self.finished.set()

    async def _straight(self, destination: Destination) -> None:
        try:
            outside, address = await self._dial(destination)
        except (Refused, NameNotResolved, OSError):
            reset_on_close(self._inside)  # to the program, it looks as if the host had closed the connection
            return
        await self._carry(destination, outside, address)

    async def _as_proxy(self) -> None:
        try:
            request, rest = await self._read_request()
        except heads.BadHead as problem:
            self._note(None, allowed=False, reason=str(problem))
            await self._say_no(_BAD_REQUEST, str(problem))
            return
        if request is None:
            return
        destination = self._canonical(request.destination)
        if destination is None or destination not in self._allowed:
            self._note(request.destination, allowed=False, reason=NOT_LISTED)
            listed = ", ".join(sorted(map(str, self._allowed)))
            await self._say_no(_FORBIDDEN, f"{request.destination} is {NOT_LISTED} ({listed})")
            return
        found = self._intercepted(destination)
        if found is not None and found.tls and not request.tunnel:
            self._note(destination, allowed=False, reason=_NEEDS_TLS)
            await self._say_no(_FORBIDDEN, f"no connection to {destination}: {_NEEDS_TLS}")
            return
        try:
            outside, address = await self._dial(destination)
        except (Refused, NameNotResolved, OSError) as problem:
            status = _FORBIDDEN if isinstance(problem, Refused) else _BAD_GATEWAY
            await self._say_no(status, f"no connection to {destination}: {problem}")
            return
        if request.tunnel:
            await self._carry(destination, outside, address, rest, answer=_ESTABLISHED)
        else:
            await self._carry(destination, outside, address, request.head + rest, rewrite=True)

    async def _read_request(self) -> tuple[heads.ProxyRequest | None, bytes]:
        """Return the request and the bytes after its head. The request is None if the client sent nothing.

        Raises:
            BadHead: The head is malformed, too long, or did not arrive in time.
        """
        data = bytearray()
        try:
            async with asyncio.timeout(self._rules.head_s):
                while (end := data.find(heads.END)) < 0:
                    if len(data) > heads.MAX_REQUEST_HEAD:
                        raise heads.BadHead(f"The head of the request is over {heads.MAX_REQUEST_HEAD} bytes.")
                    more = await self._loop.sock_recv(self._inside, _READ)
                    if not more and data:
                        raise heads.BadHead("The request ended within its head.")
                    if not more:
                        return None, b""
                    data += more
        except TimeoutError:
            raise heads.BadHead(f"No complete request head arrived within {self._rules.head_s:g} s.") from None
        return heads.parse_request(bytes(data[:end])), bytes(data[end + len(heads.END) :])

    @staticmethod
    def _canonical(destination: Destination) -> Destination | None:
        try:
            return Destination(canonical_host(destination.host), destination.port)
        except ValueError:
            return None

    async def _dial(self, destination: Destination) -> tuple[socket.socket, Address]:
        """Connect to one of the addresses that `pin` returns. Record a failure in the journal before raising it."""
        try:
            addresses = await pin(destination, self._rules, self._resolver)
        except (Refused, NameNotResolved) as problem:
            self._note(destination, allowed=False, reason=str(problem))
            raise
        except asyncio.CancelledError:
            self._note(destination, allowed=False, reason=JOB_ENDED)
            raise
        address = addresses[0]
        try:
            async with asyncio.timeout(self._rules.connect_s):
                for address in addresses:
                    try:
                        return await self._connect(address, destination.port), address
                    except OSError as problem:
                        last = problem
        except TimeoutError:
            last = OSError(f"no connection within {self._rules.connect_s:g} s")
        except asyncio.CancelledError:
            self._note(destination, allowed=True, reason=JOB_ENDED, address=str(address))
            raise
        self._note(destination, allowed=True, reason=f"could not connect: {last}", address=str(address))
        raise last

    async def _connect(self, address: Address, port: int) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004  (IP's version)
        outside = socket.socket(family, socket.SOCK_STREAM)
        try:
            outside.setblocking(False)
            outside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.sock_connect(outside, (str(address), port))
        except BaseException:
            outside.close()
            raise
        return outside

    async def _carry(
        self,
        destination: Destination,
        outside: socket.socket,
        address: Address,
        first: bytes = b"",
        *,
        answer: bytes = b"",
        rewrite: bool = False,
    ) -> None:
        found = self._intercepted(destination)
        if found is not None:
            await self._intercept(found, outside, address, first, answer)
            return
        relay = Relay(self._inside, outside, idle_s=self._rules.idle_s, deadline=self._deadline)
        relay.flushed = self.finished
        reason = JOB_ENDED
        try:
            if answer:
                await self._loop.sock_sendall(self._inside, answer)
            reason = await relay.run(first, heads.ResponseRewriter() if rewrite else None)
        except OSError as problem:
            reason = f"the client disconnected: {problem}"
        finally:
            if reason != ENDED:
                reset_on_close(self._inside)
                if not relay.flushed.is_set():
                    reset_on_close(outside)
            outside.close()
            self._note(
                destination,
                allowed=True,
                reason=reason,
                address=str(address),
                sent=relay.sent,
                received=relay.received,
            )

    def _intercepted(self, destination: Destination) -> InterceptedDestination | None:
        return None if self._interception is None else self._interception.at(destination)

    async def _intercept(
        self, found: InterceptedDestination, outside: socket.socket, address: Address, first: bytes, answer: bytes
    ) -> None:
        """Handle a connection to a destination that has secrets."""
        connection = InterceptedConnection(found, self._rules, self.finished)
        reason = JOB_ENDED
        try:
            if answer:
                await self._loop.sock_sendall(self._inside, answer)
            reason = await connection.run(self._inside, outside, first, self._deadline)
        except OSError as problem:
            reason = f"the client disconnected: {problem}"
        finally:
            if connection.broken:
                reset_on_close(self._inside)
                reset_on_close(outside)
            outside.close()
            self._note(
                found.destination,
                allowed=True,
                reason=reason,
                address=str(address),
                sent=connection.sent,
                received=connection.received,
            )

    async def _say_no(self, status: int, reason: str) -> None:
        """Send a refusal, then read for a moment what the client still sends.

        Closing a socket with unread data would reset the connection, and the client would not see the refusal.
        """
        self.finished.set()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._loop.sock_sendall(self._inside, heads.refusal(status, reason))
                self._inside.shutdown(socket.SHUT_WR)
                left = _FAREWELL_BYTES
                while left > 0 and (data := await self._loop.sock_recv(self._inside, _READ)):
                    left -= len(data)

    def _note(
        self,
        destination: Destination | None,
        *,
        allowed: bool,
        reason: str,
        address: str = "",
        sent: int = 0,
        received: int = 0,
    ) -> None:
        name = "" if destination is None else str(destination)
        self._journal.add(Connection(name, allowed, reason, address, sent, received))
