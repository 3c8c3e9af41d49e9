"""`EngineHandler`: answers the requests of an MCP client with an open engine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
from cachetools import LRUCache
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListToolsResult,
    ReadResourceResult,
)

from engine.app.background import background
from engine.app.engine import Engine
from engine.app.home import Home
from engine.app.people import People
from engine.app.sandboxes import unsafe_sandbox
from engine.app.settings import Settings
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.dispatch.render import is_large
from engine.dispatch.validate import misfit
from engine.formats.mcp import result_to_mcp_format, tools_to_mcp_format
from engine.interfaces.mcp.changes import ToolChanges
from engine.interfaces.mcp.client_access import ClientAccess
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.elicitation import McpElicitation
from engine.interfaces.mcp.files import LinkedFiles
from engine.interfaces.mcp.opening import Context
from engine.interfaces.mcp.progress import ProgressRelay
from engine.stores.workspace import FolderWorkspace

T = TypeVar("T")
_log = logging.getLogger(__name__)


AccessOf = Callable[[Context], ClientAccess]

MAX_OWNERS = 256  # owners whose linked files are remembered


class EngineHandler:
    """Lists and calls the tools that the client of each request may use."""

    def __init__(self, engine: Engine, elicitation: McpElicitation, access: AccessOf, changes: ToolChanges) -> None:
        """Create a handler.

        Args:
            engine: The open engine.
            elicitation: Asks the users of clients. The engine must have been opened with this object.
            access: Returns the rights of the client that sent a request.
            changes: Announces changed tools.
        """
        self._engine = engine
        self._elicitation = elicitation
        self._access = access
        self._changes = changes
        self._workspace = FolderWorkspace(engine.settings.workspace or engine.services.home.workspace)
        self._files: LRUCache[str, LinkedFiles] = LRUCache(MAX_OWNERS)

    async def list_tools(self, context: Context, cursor: str = "") -> ListToolsResult:
        page = await self._engine.tool_page(self._access(context).turn, cursor)
        specs = [tool.spec for tool in page.listed.tools]
        return ListToolsResult(tools=tools_to_mcp_format(specs), next_cursor=page.next or None)

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        access = self._access(context)
        relay = ProgressRelay(context.session.report_progress)
        async with anyio.create_task_group() as group:
            group.start_soon(relay.forward)
            run = partial(access.run, params.name, params.arguments or {}, relay)
            call = self._elicitation.call(params, context, run, owner=access.owner, allowed=access.asks_user)
            result: ToolResult | InputRequiredResult | MCPError
            try:
                result = await uninterrupted(call)
            except MCPError as error:  # raised below, because the group would wrap it
                result = error
            relay.finish()
        if isinstance(result, MCPError):
            raise result
        await self._changes.announce()  # so a new skill is announced before the call that added it returns
        if isinstance(result, InputRequiredResult):
            return result
        returns = await self._returns(params.name) if result.success else None
        answer = await self._answer(params.name, result, returns)
        if result.success and result.side_effects:
            answer.content += await asyncio.to_thread(self._files_of(access).of, result.side_effects)
        return answer

    def _files_of(self, access: ClientAccess) -> LinkedFiles:
        """Return the files that the clients with this access may read."""
        files = self._files.get(access.owner)
        if files is None:
            files = self._files[access.owner] = LinkedFiles(self._workspace)
        return files

    async def _returns(self, name: str) -> Mapping[str, Any] | None:
        """Return the output schema of a tool, against which clients validate its results."""
        tool = self._engine.registry.static.get(name)
        try:
            tool = tool or await self._engine.registry.find(name)
        except Exception:  # noqa: BLE001 -- a source may raise anything, but the call has succeeded
            _log.exception("Looking up the output schema of %s failed.", name)
        return None if tool is None else tool.spec.returns

    async def _answer(self, name: str, result: ToolResult, returns: Mapping[str, Any] | None) -> CallToolResult:
        if is_large(result.output):
            return await asyncio.to_thread(answer_of, name, result, returns)
        return answer_of(name, result, returns)

    async def list_resources(self, context: Context, cursor: str = "") -> ListResourcesResult:
        return self._files_of(self._access(context)).listed(cursor)

    async def read_resource(self, context: Context, uri: str) -> ReadResourceResult:
        return await asyncio.to_thread(self._files_of(self._access(context)).read, uri)


def answer_of(name: str, result: ToolResult, returns: Mapping[str, Any] | None) -> CallToolResult:
    """Return the result in the format of MCP.

    Clients raise an error for structured content that does not match the output schema. Such a result becomes an error
    result that contains the original text.
    """
    if result.success and returns is not None and (wrong := misfit(result.output, returns)):
        problem = f"{name} ran, but its output does not match its output schema:\n{wrong}"
        answer = result_to_mcp_format(replace(result, message=f"{result.text}\n\n{problem}".strip(), output=None))
        answer.is_error = True
        return answer
    return result_to_mcp_format(result, returns)


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, but cancel it at most once, so that it can finish its clean-up.

    The SDK's cancel scopes cancel again at every await, which would interrupt the clean-up of a box.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


async def default_turn(_: Engine) -> Turn:
    return Turn()


def full_access(engine: Engine, turn: Turn) -> ClientAccess:
    """Return the rights of a client on stdio, whose user has started this process."""

    async def run(name: str, arguments: Mapping[str, Any], relay: ProgressRelay) -> ToolResult:
        return await engine.call(name, arguments, turn, progress=relay)

    return ClientAccess(turn, run)


@asynccontextmanager
async def handler_of(
    engine: Engine, clients: Clients, elicitation: McpElicitation, access: AccessOf
) -> AsyncIterator[EngineHandler]:
    """Yield the handler of an open engine, and announce changed tools meanwhile."""
    changes = ToolChanges(engine.events, clients)
    watching = asyncio.create_task(changes.watch())
    try:
        yield EngineHandler(engine, elicitation, access, changes)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await elicitation.aclose()


@asynccontextmanager
async def engine_handler(
    clients: Clients,
    open_engine: Callable[[People], AbstractAsyncContextManager[Engine]],
    turn_of: Callable[[Engine], Awaitable[Turn]] = default_turn,
    *,
    jobs: bool = True,
) -> AsyncIterator[EngineHandler]:
    """Open an engine for one client, run the background services of its packs, and yield its handler.

    Args:
        clients: The clients to notify of changed tools.
        open_engine: Function that opens the engine. It receives the approver and the forms. Its exceptions propagate.
        turn_of: Function that returns the turn of every call.
        jobs: Whether background services run. They must not if code runs without isolation.
    """
    elicitation = McpElicitation()
    people = People(approver=elicitation, filler=elicitation)
    async with open_engine(people) as engine, background(engine, enabled=jobs):
        access = full_access(engine, await turn_of(engine))
        async with handler_of(engine, clients, elicitation, lambda _: access) as handler:
            yield handler


@asynccontextmanager
async def configured_handler(
    clients: Clients,
    home: Home,
    settings: Settings,
    *,
    allow_list: str,
    agent: str | None,
    unsafe: bool,
    code_only: bool = False,
) -> AsyncIterator[EngineHandler]:
    """Open the engine that the command line requests and yield its handler.

    Args:
        clients: The clients to notify of changed tools.
        home: The home of the engine.
        settings: The settings of the engine.
        allow_list: The allow-list of every turn; "" for none.
        agent: The agent of every turn.
        unsafe: Whether code runs without isolation.
        code_only: Whether the list contains only the three tools that find, describe and, with code, call all others.
    """

    async def turn_of(engine: Engine) -> Turn:
        allowed = engine.resolve_allow_list(allow_list) if allow_list else None
        turn = Turn(allowed=allowed, use_tool_search_flow=code_only)
        return await engine.turn_of(agent, turn) if agent else turn

    sandbox = unsafe_sandbox() if unsafe else None
    opened = engine_handler(
        clients,
        lambda people: Engine.open(home.root, settings=settings, sandbox=sandbox, people=people),
        turn_of,
        jobs=not unsafe,
    )
    async with opened as handler:
        yield handler
