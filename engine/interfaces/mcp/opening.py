"""`Opening`: opens the handler of MCP requests in the background, once a client needs it."""

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
    """Answers the requests of a client, for example with an open engine (`engine.interfaces.mcp.engine_handler`)."""

    async def list_tools(self, context: Context, cursor: str = "") -> ListToolsResult:
        """Return one page of tools. `cursor` is `next_cursor` of the previous page."""
        ...

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """Call one tool. A failure of the tool is part of the result, not an exception."""
        ...

    async def list_resources(self, context: Context, cursor: str = "") -> ListResourcesResult:
        """Return one page of the files that the client may read.

        Raises:
            MCPError: The cursor is invalid.
        """
        ...

    async def read_resource(self, context: Context, uri: str) -> ReadResourceResult:
        """Read one file.

        Raises:
            MCPError: The client may not read the file, or it cannot be read.
        """
        ...


class Opening:
    """A handler that is opened when it is first used. Use it in one event loop.

    The task that runs `hold` opens and closes the handler.
    """

    def __init__(self, open_handler: Callable[[], AbstractAsyncContextManager[McpHandler]]) -> None:
        self._open_handler = open_handler
        self._begun = False
        self._wake = asyncio.Event()  # set by `begin` and `finish`
        self._finished = asyncio.Event()
        self._handler: asyncio.Future[McpHandler] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Start opening the handler, if that has not started."""
        self._begun = True
        self._wake.set()

    def finish(self) -> None:
        """Make `hold` close the handler and return. A handler that was not needed is not opened."""
        self._finished.set()
        self._wake.set()

    async def handler(self) -> McpHandler:
        """Return the handler after waiting until it is open.

        Raises:
            MCPError: The handler could not be opened.
        """
        self.begin()
        try:
            return await asyncio.shield(self._handler)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise MCPError(INTERNAL_ERROR, " ".join(str(error).split()) or type(error).__name__) from error

    async def hold(self) -> None:
        """Open the handler when it is needed, and keep it open until `finish`.

        If it cannot be opened, every request is answered with the reason until `finish` is called, and then the
        exception is raised.
        """
        await self._wake.wait()
        if not self._begun:
            return
        try:
            async with self._open_handler() as handler:
                self._handler.set_result(handler)
                await self._finished.wait()
        except Exception as error:
            if not self._handler.done():
                if not self._finished.is_set():  # if `finish` was called, the caller reports the error at once
                    log.warning("the engine cannot be opened: %s", " ".join(str(error).split()))
                self._handler.set_exception(error)
                self._handler.exception()  # marks the exception as retrieved; there may be no request that raises it
                await self._finished.wait()
            raise
