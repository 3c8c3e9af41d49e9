"""`McpConnection`: a connection to one MCP server, opened on first use and reopened after it breaks.

The SDK requires a connection to be closed by the task that opened it, so each connection has a task of its own, and
callers share its client.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import Client
from mcp_types import ServerNotification, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from engine.contract.context import Clock
from engine.contract.failure import FailureClass, refusal
from engine.remote.module import log
from engine.remote.text import first_of

START_S = 60.0  # a server must start and complete the handshake within this time; callers may stop waiting sooner
HEALTHY_S = 30.0  # a connection that lasted this long counts as healthy
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0

# Opens the streams to the server. Its argument is a callback that it calls when the streams end.
OpenStreams = Callable[[Callable[[], None]], AbstractAsyncContextManager[Any]]


class McpConnection:
    """A connection to one MCP server. Use it from a single event loop."""

    def __init__(self, name: str, streams: OpenStreams, clock: Clock, changed: Callable[[], None]) -> None:
        """Create the connection.

        Args:
            name: The name of the module, for messages.
            streams: Opens the streams to the server.
            clock: The source of time.
            changed: Called when the server announces that its tools have changed.
        """
        self._name = name
        self._streams = streams
        self._clock = clock
        self._changed = changed
        self._holder: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._over = asyncio.Event()
        self._short_lives = 0  # consecutive connections that ended before `HEALTHY_S`
        self._not_before = 0.0
        self._closed = False

    async def client(self) -> Client:
        """Return the client of an open connection.

        Raises:
            ToolFailure: There is no connection. The failure says that no call was started.
        """
        if self._closed:
            raise refusal(f"The module {self._name} is closed; nothing was run.", "closed", FailureClass.FATAL)
        if self._holder is not None and self._over.is_set():
            await asyncio.wait([self._holder])  # the old connection must be closed before a new one is opened
        if self._holder is None or self._holder.done():
            self._start()
        ready = self._ready
        assert ready is not None  # noqa: S101 -- for the type checker; it has just been started
        try:
            return await asyncio.shield(ready)  # callers may stop waiting while the server continues to start
        except Exception as error:
            # Details are in the log, because callers must not learn commands, paths and addresses.
            text = f"The module {self._name} does not answer. Nothing was run."
            raise refusal(text, "unreachable", FailureClass.RETRYABLE) from error

    def drop(self) -> None:
        """Discard the current connection. The next call of `client` opens a new one."""
        self._over.set()

    async def aclose(self) -> None:
        """Close the connection and its process, if any."""
        self._closed = True
        await self._end()

    def _start(self) -> None:
        wait = self._not_before - self._clock.monotonic()
        if wait > 0:
            what = f"The module {self._name} stopped {self._short_lives} times in a row"
            text = f"{what}; it is started again in {wait:.1f} s. Nothing was run."
            raise refusal(text, "restarting", FailureClass.RETRYABLE, retry_after=wait)
        self._over = asyncio.Event()
        self._ready = ready = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(ready, self._over))
        # If nobody waits for the future, its exception counts as retrieved, so that asyncio logs no warning.
        ready.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def _hold(self, ready: "asyncio.Future[Client]", over: asyncio.Event) -> None:
        """Connect, hold the connection until it ends, and record how long it lasted."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(START_S) as starting:
                async with Client(self._streams(over.set), message_handler=self._received, cache=None) as client:
                    starting.reschedule(None)
                    ready.set_result(client)
                    async with contextlib.AsyncExitStack() as stack:
                        await self._listen(client, stack)
                        await over.wait()
        except TimeoutError:
            self._refuse(ready, TimeoutError(f"it was not ready within {START_S:g} s"))
        except Exception as error:  # noqa: BLE001 -- any error of the transport; it is passed to those who wait
            self._refuse(ready, error)
        finally:
            over.set()
            if not ready.done():
                ready.cancel()
            self._account(self._clock.monotonic() - began)

    def _refuse(self, ready: "asyncio.Future[Client]", error: Exception) -> None:
        log.warning("module_unreachable module=%s error=%s", self._name, first_of(error))
        if not ready.done():
            ready.set_exception(error)

    def _account(self, lived_s: float) -> None:
        """Record the end of a connection. Each short-lived one after the second doubles the wait before the next."""
        self._short_lives = 0 if lived_s >= HEALTHY_S else self._short_lives + 1
        if self._short_lives > 1 and not self._closed:
            wait = min(FIRST_WAIT_S * 2 ** (self._short_lives - 2), LONGEST_WAIT_S)
            self._not_before = self._clock.monotonic() + wait

    async def _received(self, message: ServerNotification | Exception) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()

    async def _listen(self, client: Client, stack: contextlib.AsyncExitStack) -> None:
        """Subscribe to notifications (MCP 2026-07-28), if the server sends any."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        try:
            events = await stack.enter_async_context(client.listen(tools_list_changed=True))
        except Exception as error:  # noqa: BLE001 -- notifications are optional
            log.info("module=%s sends no notifications about its tools: %s", self._name, first_of(error))
            return

        async def note() -> None:
            with contextlib.suppress(Exception):  # the stream broke; the connection may continue without it
                async for _ in events:
                    self._changed()

        task = asyncio.create_task(note())
        stack.push_async_callback(_ended, task)

    async def _end(self) -> None:
        self._over.set()
        holder = self._holder
        if holder is None:
            return
        if self._ready is not None and not self._ready.done():
            holder.cancel()  # it is still starting
        await asyncio.wait([holder])


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
