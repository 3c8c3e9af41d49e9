"""The engine as an MCP server: list, call, progress, cancellation, and news of changed tools. Official SDK, stdio."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
)

from engine.app.compose import People
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.faces.mcp.approve import McpApprover
from engine.faces.mcp.changes import ToolChanges
from engine.faces.mcp.progress import ProgressRelay
from engine.formats.mcp import result_to_mcp_format, tools_to_mcp_format

T = TypeVar("T")

INSTRUCTIONS = (
    "Knackbox runs code in a sandbox and learns tools. What create_skill admits becomes a tool of its own at once; "
    "list the tools again when told that they changed. A failed call says why and what to do next."
)

Context = ServerRequestContext[dict[str, object]]


def build_server(engine: Engine, approver: McpApprover, turn: Turn) -> tuple[Server[dict[str, object]], ToolChanges]:
    """A server over an open engine, and its watcher, which whoever runs the server has to keep running.

    approver: the one the engine was opened with. turn: that of every call.
    """
    bus = InMemorySubscriptionBus()
    changes = ToolChanges(engine.events, bus)

    async def list_tools(_: Context, params: PaginatedRequestParams | None) -> ListToolsResult:  # noqa: ARG001 -- one page
        return ListToolsResult(tools=tools_to_mcp_format(await engine.get_active_tool_definitions(turn)))

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        relay = ProgressRelay(context.session.report_progress)
        async with anyio.create_task_group() as group:
            group.start_soon(relay.forward)
            called = partial(engine.call, params.name, params.arguments or {}, turn, progress=relay)
            result = await uninterrupted(approver.call(params, context.session, called))
            relay.finish()
        await changes.announce()  # so that news of a skill does not arrive later than the call that made it
        return result if isinstance(result, InputRequiredResult) else result_to_mcp_format(result)

    async def initialized(context: Context, _: NotificationParams) -> None:
        changes.joined(context.session)

    server: Server[dict[str, object]] = Server(
        "knackbox",
        version=own_version(),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(bus),
    )
    server.add_notification_handler("notifications/initialized", NotificationParams, initialized)
    return server, changes


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Do the work so that a cancellation reaches it once, and is waited for.

    The SDK's cancel scopes cancel again at every await, which would break off the killing of a box half-way.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


async def usual_turn(_: Engine) -> Turn:
    return Turn()


async def serve_stdio(
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]],
    turn_of: Callable[[Engine], Awaitable[Turn]] = usual_turn,
) -> None:
    """Serve one client on stdin and stdout until it closes them. Raises what the two raise.

    open_engine: is told who approves calls. turn_of: that of every call.
    """
    try:
        await _serve(open_engine, turn_of)
    except BaseExceptionGroup as group:
        # The SDK's task groups wrap what goes through them; one plain error is told better without them.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


async def _serve(
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]], turn_of: Callable[[Engine], Awaitable[Turn]]
) -> None:
    """The streams are taken first, so that nothing printed while the engine opens can get into the protocol."""
    approver = McpApprover()
    async with (
        stdio_server() as (read, write),
        open_engine(People(approver=approver)) as engine,
        aclosing(approver),
    ):
        server, changes = build_server(engine, approver, await turn_of(engine))
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with anyio.create_task_group() as group:
            group.start_soon(changes.watch)
            await server.run(read, write, options)
            group.cancel_scope.cancel()


def own_version() -> str:
    try:
        return version("knackbox")
    except PackageNotFoundError:
        return "0"
