"""`Opening`: opens what answers the requests in the background, once a client is there."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListToolsResult,
    ReadResourceResult,
)

log = logging.getLogger(__name__)

Context = ServerRequestContext[dict[str, object]]


class McpHandler(Protocol):
    """What answers the requests of a client, such as an open engine (`engine.interfaces.mcp.engine_handler`)."""

    async def list_tools(self, cursor: str = "") -> ListToolsResult:
        """One page. cursor: `next_cursor` of the page before."""
        ...

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """Call one tool. Never raises for what the tool did."""
        ...

    async def list_resources(self) -> ListResourcesResult: ...

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Raises MCPError for what may not, or cannot, be read."""
        ...


class Opening:
    """One handler: opened at its first use, closed by the task that opened it. For one event loop."""

    def __init__(self, open_handler: Callable[[], AbstractAsyncContextManager[McpHandler]]) -> None:
        self._open_handler = open_handler
        self._begun = False
        self._told = asyncio.Event()  # to begin, or to finish
        self._finished = asyncio.Event()
        self._handler: asyncio.Future[McpHandler] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Open it now, unless that has begun."""
        self._begun = True
        self._told.set()

    def finish(self) -> None:
        """Let `hold` close the handler and return; one that nobody wanted is not opened."""
        self._finished.set()
        self._told.set()

    async def handler(self) -> McpHandler:
        """The open handler; waits until it is open. Raises MCPError when it could not be opened."""
        self.begin()
        try:
            return await asyncio.shield(self._handler)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise MCPError(INTERNAL_ERROR, " ".join(str(error).split()) or type(error).__name__) from error

    async def hold(self) -> None:
        """Open the handler when it is wanted, and keep it open until `finish`. Raises what opening and closing raise.

        When it cannot be opened, every request is answered with the reason until the client leaves.
        """
        await self._told.wait()
        if not self._begun:
            return
        try:
            async with self._open_handler() as handler:
                self._handler.set_result(handler)
                await self._finished.wait()
        except Exception as error:
            if not self._handler.done():
                if not self._finished.is_set():  # else whoever runs this says so at once
                    log.warning("the engine cannot be opened: %s", " ".join(str(error).split()))
                self._handler.set_exception(error)
                self._handler.exception()  # retrieved: there may be no request to raise it to
                await self._finished.wait()
            raise
