"""The server: uvicorn over an open engine, stopped by a signal with every call answered."""

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

from engine.app.engine import Engine
from engine.app.people import People
from engine.app.settings import HttpSettings
from engine.interfaces.http.answers import HttpProblem
from engine.interfaces.http.app import Pages, build_app
from engine.interfaces.http.approve import HttpApprover
from engine.interfaces.http.calls import RunningCalls
from engine.interfaces.http.descriptors import connections_within
from engine.interfaces.http.edge import BodyLimits, Names
from engine.interfaces.http.listen import BACKLOG
from engine.interfaces.http.served import Served
from engine.interfaces.http.tokens import Tokens

HEAD_S = 10.0  # for the head of a request to be there, from its connection or its first byte
HEAD_BYTES = 16 * 1024
KEEP_ALIVE_S = 5  # until a connection without a request is closed
_ANSWER_S = 10  # for clients to take the answers of calls that a stop has ended


class PromptProtocol(H11Protocol):
    """uvicorn's, with a limit to the time that the head of a request takes: it has one between requests alone; and it
    reads on while a request is answered, since only who reads sees that the client is gone."""

    _late: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **named: Any) -> None:
        super().__init__(config, *args, **named)
        self._most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn's answer does not say when to retry

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if self._most is not None and len(self.connections) > self._most:
            self.app = crowded
        self._late = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._answering():
            self.transport.abort()
            return
        super().data_received(data)
        if self._answering():
            self._read_on()
        if self.conn.their_state is not h11.IDLE:
            self._in_time()
        elif self._late is None and self.conn.trailing_data[0]:
            self._late = self.loop.call_later(HEAD_S, self.transport.close)

    def _answering(self) -> bool:
        """Whether all of a request is there, and not all of its answer."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        return unanswered and self.conn.their_state not in (h11.SEND_BODY, h11.ERROR)

    def _read_on(self) -> None:
        """uvicorn stops reading at a request sent before its turn, and at one that asks for another protocol. Not
        here: whoever sends ahead is cut off, which cancels the call that runs for it."""
        if self.conn.trailing_data[0]:
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


async def crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to a connection too many. Others end when their clients have been silent for a while."""
    text = "There are too many connections (`connections` of [http]). Nothing was run."
    headers = {"Retry-After": str(KEEP_ALIVE_S), "Connection": "close"}
    await HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers).answer()(scope, receive, send)


class HttpServer(uvicorn.Server):
    """Its signals are ours: uvicorn's would end the process before the engine is closed."""

    def __init__(self, config: uvicorn.Config, calls: RunningCalls, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._calls = calls
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
        self._calls.stop()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # asked twice: do not wait for clients
        self.should_exit = True


async def serve(
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]],
    listening: socket.socket,
    names: Names,
    settings: HttpSettings,
    started: Callable[[], None],
) -> None:
    """Serve until a signal asks to stop. open_engine: is told who approves calls. started: called when it answers."""
    approver = HttpApprover()
    async with open_engine(People(approver=approver)) as engine:
        tokens = await asyncio.to_thread(Tokens, engine.services.records, engine.services.clock)
        async with aclosing(RunningCalls(engine, settings.calls_per_token, tokens.holds)) as calls:
            served = Served(engine, calls, approver, settings.module_name)
            pages = Pages(frozenset(settings.cors_origins), settings.docs)
            app = build_app(served, tokens.find, names, BodyLimits(settings.body_bytes, settings.body_s), pages)
            await HttpServer(_config(app, settings), calls, started).serve([listening])


def _config(app: Any, settings: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # the audit has who called what
        server_header=False,
        proxy_headers=False,  # nobody's word is taken for where a request comes from
        limit_concurrency=connections_within(settings.connections),
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=_ANSWER_S,
    )
