"""`Bridge`: lets the programs of one box ask the caller of the job for something, and get an answer.

Process 1 of the box creates a listening socket in the box's own network namespace, and the engine accepts its
connections. So any process of the box can ask, in any language, and the box receives no descriptor, address or
credential of anything outside: an address in another box's namespace is another socket.

The bytes of requests and answers are opaque here. What they mean, and what they may do, is decided by `answer`.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from sandbox.bridge.connection import BridgeConnection
from sandbox.contract import Job, OnOutput, Outcome, SandboxError

_ACCEPTS_PER_WAKE = 16
_PAUSE_S = 0.05

Answer = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class BridgeLimits:
    """The limits of one bridge.

    Attributes:
        connections: Connections at once; a further one is closed.
        at_once: Requests that are answered at once; further ones wait in the box.
        request_bytes: The size of a request. A longer one ends its connection.
    """

    connections: int = 32
    at_once: int = 64
    request_bytes: int = 8 << 20


class Pausable(Protocol):
    """A running job whose wall clock can be stopped."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Bridge:
    """The bridge of one job, for use in the event loop that runs the job. Always close it."""

    def __init__(self, answer: Answer | None = None, limits: BridgeLimits | None = None) -> None:
        """Create the bridge.

        Args:
            answer: Answers one request. It is called for several requests at once, and is cancelled with the job. It
                must not raise. While it is None, a request ends its connection.
            limits: The limits; None for the defaults.
        """
        self._answer = answer
        self._limits = limits or BridgeLimits()
        self._listener: socket.socket | None = None
        self._connections: set[BridgeConnection] = set()
        self._opening: set[asyncio.Task[object]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._waiting: list[tuple[BridgeConnection, bytes]] = []
        self._running: Pausable | None = None
        self._pauses = 0
        self._paused_at = self._paused_s = 0.0
        self._closed = False

    def opened(self, descriptors: Sequence[int]) -> None:
        """Take over the listening socket that the box has created.

        Raises:
            SandboxError: There is more or less than one socket, or the bridge is open or closed.
        """
        ends = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if len(ends) != 1 or self._listener is not None or self._closed:
            for end in ends:
                end.close()
            raise SandboxError(f"The box sent {len(ends)} sockets for its bridge instead of one.")
        self._listener = ends[0]
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def attach(self, running: Pausable) -> None:
        """Name the job whose clock `paused` stops."""
        self._running = running

    @contextlib.asynccontextmanager
    async def serving(self, answer: Answer | None) -> AsyncIterator[None]:
        """Answer requests with `answer` within the block. At its end, cancel those that are being answered."""
        self._answer = answer
        try:
            yield
        finally:
            self._answer = None
            await self._cancel()

    @property
    def paused_s(self) -> float:
        """How long `paused` blocks have lasted so far, in seconds; time in several at once counts once."""
        now = asyncio.get_running_loop().time()
        return self._paused_s + (now - self._paused_at if self._pauses else 0.0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the job's wall clock within the block, for example while a request waits for a person."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = loop.time()
            if self._running is not None:
                self._running.pause()
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._paused_s += loop.time() - self._paused_at
                if self._running is not None:
                    self._running.resume()

    async def aclose(self) -> None:
        """Accept nothing more, cancel the requests that are being answered, and close all connections."""
        self._closed = True
        self._running = None
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        await self._cancel(*self._opening)
        for connection in list(self._connections):
            connection.close()

    def received(self, connection: BridgeConnection, request: bytes) -> None:
        """Answer a request, now or when fewer are being answered. `BridgeConnection` calls this."""
        if self._closed:
            return
        if len(self._answering) >= self._limits.at_once:
            self._waiting.append((connection, request))
            connection.hold()
            return
        self._begin(connection, request)

    def lost(self, connection: BridgeConnection) -> None:
        """Forget a connection. `BridgeConnection` calls this."""
        self._connections.discard(connection)
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not connection]

    async def _cancel(self, *others: asyncio.Task[object]) -> None:
        """Cancel the requests that are being answered, forget those that wait, and cancel the other tasks."""
        for connection, _ in self._waiting:
            connection.close()
        self._waiting.clear()
        tasks = [*others, *self._answering]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTS_PER_WAKE):
            if self._listener is None:
                return
            try:
                inside, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # most likely, no descriptors are left
                self._accept_later(self._listener)
                return
            if len(self._connections) >= self._limits.connections:
                inside.close()
                self._accept_later(self._listener)
                return
            inside.setblocking(False)
            inside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = BridgeConnection(self, self._limits.request_bytes)
            self._connections.add(connection)
            task = loop.create_task(loop.connect_accepted_socket(partial(_itself, connection), inside))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
            task.add_done_callback(partial(_close_if_cancelled, inside))

    def _accept_later(self, listener: socket.socket) -> None:
        """Accept nothing for a moment, because the other jobs need the event loop too."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(_PAUSE_S, self._accept_again, listener)

    def _accept_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            asyncio.get_running_loop().add_reader(listener, self._accept)

    def _begin(self, connection: BridgeConnection, request: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._respond(connection, request))
        self._answering.add(task)
        task.add_done_callback(self._answered)

    async def _respond(self, connection: BridgeConnection, request: bytes) -> None:
        if self._answer is None:
            connection.close()
            return
        try:
            connection.send(await self._answer(request))
        except BaseException:  # without its answer, the box would wait for ever
            connection.close()
            raise

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if self._waiting and not self._closed:
            connection, request = self._waiting.pop(0)
            self._begin(connection, request)
            if all(waiting[0] is not connection for waiting in self._waiting):
                connection.go_on()


def _close_if_cancelled(inside: socket.socket, task: asyncio.Task[object]) -> None:
    if task.cancelled():  # perhaps before its first step, so that nothing else closes the socket
        inside.close()


def _itself(connection: BridgeConnection) -> BridgeConnection:
    return connection


@runtime_checkable
class BridgedSandbox(Protocol):
    """A sandbox whose boxes can have bridges."""

    async def run_bridged(self, job: Job, bridge: Bridge, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job with a bridge, and close the bridge."""
        ...
