"""The MCP server: lists and calls tools with progress and cancellation, and announces changed tools.

`build_server` is independent of the transport. `serve_stdio` serves one client on stdio, and answers the first request
of the client (`initialize`) before an engine is open, or even imported.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast, get_args

import anyio
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.opening import Context, McpHandler, Opening
from engine.interfaces.mcp.stdin import StdinLines, stdin_lines

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

INSTRUCTIONS = (
    "Knackbox runs code in a sandbox and learns tools. A skill that create_skill admits becomes a tool at once; list "
    "the tools again when you are notified that they changed. A failed call says why and what to do next."
)

OpenHandler = Callable[[Clients], AbstractAsyncContextManager[McpHandler]]
GetHandler = Callable[[], Awaitable[McpHandler]]

# Lists depend on the caller and can change at any time. The client is notified when they do.
_UNCACHED: dict[CacheableMethod, CacheHint] = dict.fromkeys(
    get_args(CacheableMethod), CacheHint(ttl_ms=0, scope="private")
)


def build_server(
    listening: ListenHandler,
    clients: Clients,
    handler: GetHandler,
    *,
    initialized: Callable[[], None] = lambda: None,
    input_schema: Callable[[str], Mapping[str, Any] | None] | None = None,
) -> Server[dict[str, object]]:
    """Return a server whose requests are answered by a handler, over any transport.

    Args:
        listening: Serves the notification streams of clients with protocol version 2026-07-28 or later.
        clients: Receives the sessions of older clients.
        handler: Returns the handler when it is open.
        initialized: Called when an older client has connected.
        input_schema: Returns the schema of a tool's arguments, or None if it declares no HTTP headers. By default the
            SDK searches all pages of the list of tools for it in each call over HTTP.
    """

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return await (await handler()).list_tools(context, _cursor_of(params))

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        return await (await handler()).call_tool(context, params)

    async def list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await (await handler()).list_resources(context, _cursor_of(params))

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await (await handler()).read_resource(context, params.uri)

    async def on_initialized(context: Context, _: NotificationParams) -> None:
        clients.joined(context.session)
        initialized()

    server: Server[dict[str, object]] = Server(
        "knackbox",
        version=own_version(),
        instructions=INSTRUCTIONS,
        cache_hints=_UNCACHED,
        get_tool_input_schema=input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_subscriptions_listen=listening,
    )
    server.add_notification_handler("notifications/initialized", NotificationParams, on_initialized)
    return server


def _cursor_of(params: PaginatedRequestParams | None) -> str:
    return (params.cursor or "") if params is not None else ""


async def serve_stdio(open_handler: OpenHandler) -> None:
    """Serve one client on stdin and stdout until it disconnects, or until SIGINT or SIGTERM.

    After a signal no further requests are read: running calls are cancelled and the handler is closed, as when the
    client disconnects. A second signal ends the process at once.

    Args:
        open_handler: Function that opens the handler of requests, called when a client needs the handler. It receives
            the clients to notify of changed tools. Exceptions that are raised while the handler opens or closes are
            raised again at the end.
    """
    try:
        await _serve(open_handler)
    except BaseExceptionGroup as group:
        # The SDK's task groups wrap exceptions. A single exception is clearer without the groups.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


async def _serve(open_handler: OpenHandler) -> None:
    """Serve after redirecting the streams, so that output printed while the handler opens stays out of the protocol."""
    with stdin_lines() as lines, _stopped_by_signals(lines.close):
        await _serve_lines(lines, open_handler)


async def _serve_lines(lines: StdinLines, open_handler: OpenHandler) -> None:
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
        bus = InMemorySubscriptionBus()
        clients = Clients(bus)
        opening = Opening(lambda: open_handler(clients))
        server = build_server(ListenHandler(bus), clients, opening.handler, initialized=opening.begin)
        holding = asyncio.create_task(opening.hold())
        try:
            await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))
            if not lines.closed:
                opening.begin()  # reports configuration errors even if the client sent no request
        finally:
            opening.finish()
            await asyncio.wait([holding])
        holding.result()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGINT or SIGTERM. The next one has its default effect."""
    loop = asyncio.get_running_loop()

    def restore() -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

    def first() -> None:
        restore()
        stop()

    for each in _SIGNALS:
        loop.add_signal_handler(each, first)
    try:
        yield
    finally:
        restore()


def own_version() -> str:
    """Return the version of Knackbox, or "0" if it is not installed."""
    try:
        return version("knackbox")
    except PackageNotFoundError:
        return "0"
