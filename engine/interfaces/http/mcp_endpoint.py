"""`McpEndpoint`: MCP over streamable HTTP at /mcp, with the SDK's transport behind the edge.

Clients with protocol version 2026-07-28 send self-contained requests. Older clients have sessions, which belong to the
token that opened them and end after an idle time. Calls count as calls of the token, like those of the routes.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.app.engine import Engine
from engine.app.settings import HttpSettings
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.bodies import turn_fields
from engine.interfaces.http.edge import MCP_PATH
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import Caller
from engine.interfaces.mcp.client_access import ClientAccess
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.elicitation import McpElicitation
from engine.interfaces.mcp.engine_handler import handler_of
from engine.interfaces.mcp.opening import Context, McpHandler
from engine.interfaces.mcp.progress import ProgressRelay
from engine.interfaces.mcp.server import build_server
from engine.interfaces.mcp.session_events import SessionManager
from engine.policy.approval import ApprovalAnswer, ApprovalRequest

RETRY_MS = 1_000  # the time after which a client should reconnect to a stream that broke


@dataclass(frozen=True, slots=True)
class HttpPeople:
    """Asks for approval: the user of the MCP client if its token allows that, otherwise the user's other tokens."""

    tokens: HttpApprover
    clients: McpElicitation

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask for approval of a call and wait for the answer.

        Raises:
            PermissionError: Nobody can be asked.
        """
        return await (self.clients if self.clients.can_ask() else self.tokens).ask(request)


class McpEndpoint:
    """ASGI application for requests that passed the edge. Use it in one event loop."""

    def __init__(self, manager: SessionManager, listening: ListenHandler) -> None:
        """Create the application.

        Args:
            manager: The running session manager.
            listening: Serves the notification streams of clients with protocol version 2026-07-28 or later.
        """
        self._manager = manager
        self._listening = listening
        self._streams: set[anyio.CancelScope] = set()  # notification streams of older clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = _caller_of(scope)
        # The SDK lets only this identity use the session. A new token of the same name has another hash.
        token = AccessToken(token="", client_id=caller.sha256, scopes=[], subject=caller.user)
        scope = {**scope, "user": AuthenticatedUser(token)}
        if scope["method"] != "GET":
            await self._manager.handle_request(scope, receive, send)
            return
        with anyio.CancelScope() as stream:
            self._streams.add(stream)
            try:
                await self._manager.handle_request(scope, receive, send)
            finally:
                self._streams.discard(stream)
        if stream.cancelled_caught:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def close_streams(self) -> None:
        """End the notification streams, so that the server can stop without waiting for their clients."""
        self._listening.close()
        for stream in list(self._streams):
            stream.cancel()


@dataclass(frozen=True, slots=True)
class AccessOfTokens:
    """Derives the rights of MCP clients from their tokens.

    Attributes:
        calls: Runs the calls.
        code_only: Whether lists contain only the three tools that find, describe and, with code, call all others.
    """

    calls: RunningCalls
    code_only: bool = False

    def __call__(self, context: Context) -> ClientAccess:
        """Return the rights of the client that sent a request."""
        request: Any = context.request
        caller = _caller_of(request.scope)
        turn = Turn(use_tool_search_flow=self.code_only, **turn_fields(caller))

        async def run(name: str, arguments: Mapping[str, Any], relay: ProgressRelay) -> ToolResult:
            try:
                running = self.calls.start(
                    caller, name, arguments, turn, followed=True, client=request.client, events=relay.events
                )
                return await running.wait()
            except HttpProblem as problem:
                wait = problem.headers.get("Retry-After")
                data = {"retryAfterSeconds": int(wait)} if wait else None
                raise MCPError(INTERNAL_ERROR, problem.detail, data) from problem

        return ClientAccess(turn, run, caller.sha256, caller.approves)


@asynccontextmanager
async def mcp_endpoint(
    engine: Engine, elicitation: McpElicitation, access: AccessOfTokens, settings: HttpSettings
) -> AsyncIterator[McpEndpoint]:
    """Serve MCP while the context is open. On exit, all sessions are closed.

    Args:
        engine: The open engine.
        elicitation: Asks the users of clients. The engine must have been opened with it.
        access: Derives the rights of clients.
        settings: The section `[http]` of the configuration.
    """
    bus = InMemorySubscriptionBus()
    clients = Clients(bus)
    async with handler_of(engine, clients, elicitation, access) as handler:
        listening = ListenHandler(bus)
        server = mcp_server(engine, handler, listening, clients)
        manager = SessionManager(
            server,
            retry_interval=RETRY_MS,
            session_idle_timeout=settings.mcp_idle_s,
            max_sessions=settings.mcp_sessions,
            max_request_body_size=settings.body_bytes,
        )
        async with manager.run():
            yield McpEndpoint(manager, listening)


def mcp_server(
    engine: Engine, handler: McpHandler, listening: ListenHandler, clients: Clients
) -> Server[dict[str, object]]:
    """Return the SDK's server for an open handler."""

    async def get_handler() -> McpHandler:
        return handler

    def input_schema(name: str) -> Mapping[str, Any] | None:
        # Only tools written for Knackbox can declare headers; a search for any other tool would slow every call.
        tool = engine.registry.static.get(name)
        return None if tool is None else tool.spec.parameters

    return build_server(listening, clients, get_handler, input_schema=input_schema)


def with_mcp(app: ASGIApp, endpoint: ASGIApp) -> ASGIApp:
    """Return an application that passes requests for /mcp to the endpoint and all others to `app`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        is_mcp = scope["type"] == "http" and scope["path"] == MCP_PATH
        await (endpoint if is_mcp else app)(scope, receive, send)

    return route


def _caller_of(scope: Scope) -> Caller:
    """Return the caller that the edge identified.

    Raises:
        TypeError: The edge has not checked the request, so it must not be answered.
    """
    caller = scope["state"]["caller"]
    if not isinstance(caller, Caller):
        raise TypeError("The request has no caller: it did not pass the edge.")
    return caller
