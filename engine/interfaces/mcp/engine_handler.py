"""`EngineHandler`: an open engine answers what an MCP client asks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListToolsResult,
    ReadResourceResult,
)

from engine.app.engine import Engine
from engine.app.people import People
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.dispatch.large import is_large
from engine.dispatch.output_check import misfit
from engine.formats.mcp import result_to_mcp_format, tools_to_mcp_format
from engine.interfaces.mcp.approve import McpApprover
from engine.interfaces.mcp.changes import ToolChanges
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.files import LinkedFiles
from engine.interfaces.mcp.opening import Context
from engine.interfaces.mcp.progress import ProgressRelay
from engine.stores.workspace import FolderWorkspace

T = TypeVar("T")
_log = logging.getLogger(__name__)


class EngineHandler:
    """Lists and calls the tools of one turn."""

    def __init__(self, engine: Engine, approver: McpApprover, turn: Turn, changes: ToolChanges) -> None:
        """approver: the one the engine was opened with. turn: that of every call."""
        self._engine = engine
        self._approver = approver
        self._turn = turn
        self._changes = changes
        self._files = LinkedFiles(FolderWorkspace(engine.settings.workspace or engine.services.home.workspace))

    async def list_tools(self, cursor: str = "") -> ListToolsResult:
        page = await self._engine.tool_page(self._turn, cursor)
        tools = tools_to_mcp_format(tool.spec for tool in page.listed.tools)
        return ListToolsResult(tools=tools, next_cursor=page.next or None)

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        relay = ProgressRelay(context.session.report_progress)
        async with anyio.create_task_group() as group:
            group.start_soon(relay.forward)
            called = partial(self._engine.call, params.name, params.arguments or {}, self._turn, progress=relay)
            result = await uninterrupted(self._approver.call(params, context.session, called))
            relay.finish()
        await self._changes.announce()  # so that news of a skill does not arrive later than the call that made it
        if isinstance(result, InputRequiredResult):
            return result
        returns = await self._returns(params.name) if result.success else None
        answer = await self._answer(params.name, result, returns)
        if result.success and result.side_effects:
            answer.content += await asyncio.to_thread(self._files.of, result.side_effects)
        return answer

    async def _returns(self, name: str) -> Mapping[str, Any] | None:
        """The schema that a client holds this tool's results against."""
        tool = self._engine.registry.find_static(name)
        try:
            tool = tool or await self._engine.registry.find(name)
        except Exception:  # noqa: BLE001 -- whatever a source raises; the call has succeeded, and its result counts
            _log.exception("The output schema of %s could not be looked up.", name)
        return None if tool is None else tool.spec.returns

    async def _answer(self, name: str, result: ToolResult, returns: Mapping[str, Any] | None) -> CallToolResult:
        if is_large(result.output):
            return await asyncio.to_thread(answer_of, name, result, returns)
        return answer_of(name, result, returns)

    async def list_resources(self) -> ListResourcesResult:
        return self._files.listed()

    async def read_resource(self, uri: str) -> ReadResourceResult:
        return await asyncio.to_thread(self._files.read, uri)


def answer_of(name: str, result: ToolResult, returns: Mapping[str, Any] | None) -> CallToolResult:
    """The result as a client takes it. Structured content that does not fit the output schema makes clients raise, so
    then it is an error, with the text it would have had."""
    if result.success and returns is not None and (wrong := misfit(result.output, returns)):
        said = f"{name} ran, but its output does not fit its output schema:\n{wrong}"
        answer = result_to_mcp_format(replace(result, message=f"{result.text}\n\n{said}".strip(), output=None))
        answer.is_error = True
        return answer
    return result_to_mcp_format(result, returns)


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


@asynccontextmanager
async def engine_handler(
    clients: Clients,
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]],
    turn_of: Callable[[Engine], Awaitable[Turn]] = usual_turn,
) -> AsyncIterator[EngineHandler]:
    """The handler of an engine that is opened and closed with it. Raises what these raise.

    clients: are told when tools change. open_engine: is told who approves calls. turn_of: that of every call.
    """
    approver = McpApprover()
    async with open_engine(People(approver=approver)) as engine, aclosing(approver):
        changes = ToolChanges(engine.events, clients)
        watching = asyncio.create_task(changes.watch())
        try:
            yield EngineHandler(engine, approver, await turn_of(engine), changes)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
