"""`serve`: an HTTP server (uvicorn) for an open engine. When a signal stops it, every running call gets a response."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.app.background import background
from engine.app.engine import Engine
from engine.app.people import People
from engine.app.settings import HttpSettings
from engine.interfaces.http.app import Pages, build_app
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.edge import BodyLimits, HostNames
from engine.interfaces.http.listen import BACKLOG, connections_within
from engine.interfaces.http.mcp_endpoint import AccessOfTokens, HttpPeople, mcp_endpoint
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.route_context import RouteContext
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import Tokens
from engine.interfaces.mcp.elicitation import McpElicitation

HEADER_TIMEOUT_S = 10.0  # time for the headers of a request, counted from the connection or the request's first byte
MAX_HEADER_BYTES = 16 * 1024
KEEP_ALIVE_S = 5  # time until an idle connection is closed
_SHUTDOWN_S = 10  # time for clients to receive the results of calls that a stop has cancelled


class GuardedH11Protocol(H11Protocol):
    """uvicorn's HTTP protocol with two changes.

    This class limits the time in which the headers of a request must arrive; uvicorn limits only the time between
    requests. It also continues to read while a request is handled, because otherwise a disconnect is not detected.
    """

    _header_timeout: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **named: Any) -> None:
        super().__init__(config, *args, **named)
        # uvicorn's own response to too many connections has no Retry-After.
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the type that uvicorn uses
        super().connection_made(transport)
        if self._max_connections is not None and len(self.connections) > self._max_connections:
            self.app = reject_connection
        self._header_timeout = self.loop.call_later(HEADER_TIMEOUT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._is_responding():
            self.transport.abort()
            return
        super().data_received(data)
        if self._is_responding():
            self._resume_reading()
        if self.conn.their_state is not h11.IDLE:
            self._cancel_header_timeout()
        elif self._header_timeout is None and self.conn.trailing_data[0]:
            self._header_timeout = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _is_responding(self) -> bool:
        """Return whether a request has been received completely and its response is not complete."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        return unanswered and self.conn.their_state not in (h11.SEND_BODY, h11.ERROR)

    def _resume_reading(self) -> None:
        """Continue reading where uvicorn stops: after a pipelined request or a request to switch protocols.

        A client that sends a pipelined request is disconnected, which cancels its running call.
        """
        if self.conn.trailing_data[0]:
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_header_timeout()
        super().connection_lost(exc)

    def _cancel_header_timeout(self) -> None:
        if self._header_timeout is not None:
            self._header_timeout.cancel()
            self._header_timeout = None


async def reject_connection(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a connection beyond the limit. ``Retry-After`` is the time after which idle connections are closed."""
    text = "The server has too many connections (`connections` of [http]). Nothing was run."
    headers = {"Retry-After": str(KEEP_ALIVE_S), "Connection": "close"}
    await HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers).response()(scope, receive, send)


class HttpServer(uvicorn.Server):
    """uvicorn's server with other signal handlers: uvicorn's own would end the process before the engine is closed."""

    def __init__(self, config: uvicorn.Config, stop_work: Callable[[], None], started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop_work = stop_work
        self._when_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._stop)
        try:
            yield
        finally:
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(each)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._when_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop_work()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # a second signal: do not wait for clients
        self.should_exit = True


async def serve(
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]],
    listening: socket.socket,
    names: HostNames,
    settings: HttpSettings,
    started: Callable[[], None],
    *,
    jobs: bool = True,
    api: bool = True,
) -> None:
    """Serve until SIGINT or SIGTERM, and run the background services of packs.

    Args:
        open_engine: Function that opens the engine. It receives the approver of calls.
        listening: The listening socket.
        names: The accepted values of the Host header.
        settings: The section `[http]` of the configuration.
        started: Function to call when the server accepts requests.
        jobs: Whether background services run. They must not if code runs without isolation.
        api: Whether the server has its own routes besides /health and /mcp.
    """
    approver, elicitation = HttpApprover(), McpElicitation()
    people = People(approver=HttpPeople(approver, elicitation), filler=elicitation)
    async with open_engine(people) as engine, background(engine, enabled=jobs):
        tokens = await asyncio.to_thread(Tokens, engine.services.records, engine.services.clock)
        async with aclosing(RunningCalls(engine, settings.calls_per_token, tokens.still_valid)) as calls:
            access = AccessOfTokens(calls, code_only=settings.mcp_tools == "code")
            async with mcp_endpoint(engine, elicitation, access, settings) as mcp:
                context = RouteContext(engine, calls, approver, settings.module_name)
                pages = Pages(frozenset(settings.cors_origins), settings.docs)
                limits = BodyLimits(settings.body_bytes, settings.body_s)
                app = build_app(context, tokens.lookup, names, limits, pages, mcp=mcp, api=api)

                def stop_work() -> None:
                    calls.stop()
                    mcp.close_streams()

                await HttpServer(config_of(app, settings), stop_work, started).serve([listening])


def config_of(app: Any, settings: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=GuardedH11Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # not needed, because the audit records all calls
        server_header=False,
        proxy_headers=False,  # forwarded addresses are not trusted
        limit_concurrency=connections_within(settings.connections),
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
