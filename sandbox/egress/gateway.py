"""`Gateway`: the egress of one box. Accepts connections on the box's sockets, and forwards those that are allowed.

Process 1 of the box created the sockets, so they belong to the box's network namespace, whichever process uses them.
The engine accepts connections from them, and connects to the destinations in the host's namespace. So nothing in the
box has a route to the outside, and the box needs no additional process.
"""

import asyncio
import socket
from collections.abc import Sequence

from sandbox.contract import Connection, Destination, SandboxError
from sandbox.egress import stray
from sandbox.egress.exchange import Exchange
from sandbox.egress.interception import Interception
from sandbox.egress.journal import Journal, OnConnection
from sandbox.egress.plan import EgressPlan
from sandbox.egress.relay import reset_on_close
from sandbox.egress.resolve import Resolver
from sandbox.egress.rules import EgressRules

_ACCEPTS_PER_WAKE = 16
_PACKETS_PER_WAKE = 64
_PAUSE_S = 0.05  # pause in accepting connections of a job over its limits, because other jobs need the event loop too
_FLUSH_S = 0.25  # time to forward what an ended job has already sent


class Gateway:
    """The egress of one job. `open` it with the box's sockets, and always close it."""

    def __init__(
        self,
        plan: EgressPlan,
        rules: EgressRules,
        resolver: Resolver,
        on_connection: OnConnection | None = None,
        interception: Interception | None = None,
    ) -> None:
        self._plan = plan
        self._rules = rules
        self._resolver = resolver
        self._interception = interception
        self._journal = Journal(rules.kept, on_connection)
        self._allowed = frozenset(o.destination for o in plan.outlets if o.destination is not None)
        self._places = frozenset(plan.listen)
        self._names = {o.address: o.destination.host for o in plan.outlets if o.destination is not None}
        self._loop = asyncio.get_running_loop()
        self._listeners: dict[socket.socket, Destination | None] = {}
        self._packets: list[socket.socket] = []
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._running: dict[asyncio.Task[None], Exchange] = {}
        self._accepted = 0
        self._closed = False

    def open(self, descriptors: Sequence[int]) -> None:
        """Take the listening sockets, in the plan's order, followed by the raw sockets for stray packets.

        Raises:
            SandboxError: The number of sockets is wrong.
        """
        ends = []
        for descriptor in descriptors:
            end = socket.socket(fileno=descriptor)
            end.setblocking(False)
            ends.append(end)
        wanted = len(self._plan.outlets)
        if self._closed or self._listeners or len(ends) < wanted:
            for end in ends:
                end.close()
            raise SandboxError(f"The box sent {len(ends)} sockets for its egress instead of {wanted}.")
        for end, outlet in zip(ends, self._plan.outlets, strict=False):
            self._listeners[end] = outlet.destination
            self._loop.add_reader(end, self._accept, end)
        for end in ends[wanted:]:
            self._packets.append(end)
            self._loop.add_reader(end, self._look_for_strays, end)

    @property
    def connections(self) -> tuple[Connection, ...]:
        return self._journal.entries()

    async def aclose(self, *, flush: bool = True) -> None:
        """Close every socket and end every task. With `flush`, first take a moment to forward what the job has sent."""
        self._closed = True
        for end in self._packets:
            self._look_for_strays(end, self._rules.kept)
        self._stop_listening()
        try:
            if flush and self._running:
                await self._flush()
        finally:
            await self._end_all()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_WAKE):
            try:
                inside, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as problem:  # most likely, no descriptors are left
                self._journal.add(
                    self._refused(listener, f"the engine cannot accept the connection: {problem.strerror}")
                )
                self._pause(listener)
                return
            excess = self._excess()
            if excess:
                reset_on_close(inside)
                inside.close()
                self._journal.add(self._refused(listener, excess))
                self._pause(listener)
                return
            self._begin(inside, self._listeners[listener])

    def _begin(self, inside: socket.socket, outlet: Destination | None) -> None:
        inside.setblocking(False)
        inside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        exchange = Exchange(
            inside, self._allowed, self._rules, self._resolver, self._journal, interception=self._interception
        )
        task = self._loop.create_task(exchange.run(outlet))
        self._running[task] = exchange

        def ended(done: asyncio.Task[None]) -> None:
            del self._running[done]
            inside.close()  # a task that was cancelled before its first step has not closed the socket
            exchange.finished.set()

        task.add_done_callback(ended)

    def _excess(self) -> str:
        if self._accepted >= self._rules.connections_in_all:
            return f"more than {self._rules.connections_in_all} connections in one job"
        if len(self._running) >= self._rules.connections_at_once:
            return f"more than {self._rules.connections_at_once} connections at once"
        return ""

    def _refused(self, listener: socket.socket, reason: str) -> Connection:
        destination = self._listeners[listener]
        return Connection("" if destination is None else str(destination), allowed=False, reason=reason)

    def _pause(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        self._pauses[listener] = self._loop.call_later(_PAUSE_S, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        del self._pauses[listener]
        self._loop.add_reader(listener, self._accept, listener)

    def _look_for_strays(self, packets: socket.socket, most: int = _PACKETS_PER_WAKE) -> None:
        for destination, protocol in stray.read(packets, most):
            if protocol != socket.IPPROTO_TCP or (destination.host, destination.port) not in self._places:
                self._journal.add(stray.connection(destination, protocol, self._names))
        if self._journal.full and packets.fileno() >= 0:
            self._loop.remove_reader(packets)  # the kernel drops packets that nobody reads

    def _stop_listening(self) -> None:
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        for end in (*self._listeners, *self._packets):
            self._loop.remove_reader(end)
            end.close()
        self._listeners.clear()
        self._packets.clear()

    async def _flush(self) -> None:
        waiting = [asyncio.ensure_future(exchange.finished.wait()) for exchange in self._running.values()]
        try:
            await asyncio.wait(waiting, timeout=_FLUSH_S)
        finally:
            for each in waiting:
                each.cancel()

    async def _end_all(self) -> None:
        """Cancel every task and wait until all have ended, even if the caller is cancelled."""
        cancelled = False
        for task in self._running:
            task.cancel()
        while self._running:
            try:
                await asyncio.wait(list(self._running))
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError
