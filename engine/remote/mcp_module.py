"""`McpModule`: a module whose tools come from an MCP server (MOD-6): a command, or a streamable HTTP URL."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    PaginatedRequestParams,
)
from pydantic import TypeAdapter, ValidationError

from engine.contract.canonical import digest
from engine.contract.context import CallContext, Clock
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.remote.http_module import DENIED, ERROR_BYTES, GRACE_S, not_let_in
from engine.remote.mcp_connection import McpConnection
from engine.remote.mcp_content import produced, text_of
from engine.remote.mcp_http import Bounded, http_streams
from engine.remote.mcp_process import Command, process_streams
from engine.remote.mcp_tools import LISTING_BYTES, MOST_TOOLS, kept_of, listing_of, read_listing
from engine.remote.module import ManifestError, Offer, split_name, timed_out
from engine.remote.states import Kind
from engine.remote.text import clean, first_of, one_line

MOST_PAGES = 32
_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_SESSION_GONE = "Session terminated"  # the SDK's message for a 404 in a session: the server was restarted
_PASSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class McpServer:
    """The configuration of an MCP server: a command, or a URL with headers.

    Attributes:
        trusted: Whether to believe the server's hints (`engine.remote.mcp_tools`).
        permission: The permission that a user needs to call the server's tools.
        timeout_s: The deadline of one call, in seconds.
    """

    command: Command | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False
    permission: PermissionLevel = "guest"
    timeout_s: float = 30.0


class McpModule:
    """An MCP server as a module. The server is started, or contacted, when its tools are first needed."""

    def __init__(self, name: str, server: McpServer, clock: Clock) -> None:
        self._name = name
        self._server = server
        self._changed: Callable[[], None] = lambda: None
        self._http: Bounded | None = None
        self._connection = McpConnection(name, self._streams, clock, self._announce)

    @property
    def name(self) -> str:
        return self._name

    @property
    def kind(self) -> Kind:
        return "mcp"

    @property
    def where(self) -> str:
        command = self._server.command
        if command is not None:  # the arguments are not shown, because they may hold secrets
            return command.command
        return str(httpx2.URL(self._server.url).copy_with(username=None, password=None, query=None, fragment=None))

    @property
    def identity(self) -> str:
        command = self._server.command
        place = [command.command, *command.args, str(command.cwd)] if command is not None else [self._server.url]
        return digest(["mcp", self._name, *place])

    async def fetch(self) -> Any:
        """Fetch all pages of the server's list of tools.

        Raises:
            ManifestError: The list is invalid or too large.
            ToolFailure: There is no connection, or the server denied access.
            MCPError: The server reports an error.
        """
        client = await self._client()
        listed: list[dict[str, Any]] = []
        size = 0
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            except ValidationError as error:
                raise ManifestError(f"its list of tools is invalid (errors: {error.error_count()})") from error
            except MCPError as error:
                self._drop_if_gone(error)
                raise
            if len(listed) + len(page.tools) > MOST_TOOLS:
                raise ManifestError(f"it lists more than {MOST_TOOLS} tools")
            for tool in await asyncio.to_thread(kept_of, page.tools):  # the rest of the page is discarded
                size += len(json.dumps(tool))
                if size > LISTING_BYTES:
                    raise ManifestError(f"its list of tools is larger than {LISTING_BYTES >> 20} MiB")
                listed.append(tool)
            cursor = page.next_cursor
            if cursor is None:
                return listing_of(listed, client.instructions)
        raise ManifestError(f"its list of tools has more than {MOST_PAGES} pages")

    def read(self, manifest: Any) -> Offer:
        server = self._server
        deadline = server.timeout_s + GRACE_S
        return read_listing(
            self._name, manifest, timeout_s=deadline, permission=server.permission, trusted=server.trusted
        )

    async def run(self, spec: ToolSpec, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Call the tool once. A cancellation is forwarded to the server.

        Raises:
            ToolFailure: The call failed.
        """
        _, tool = split_name(spec.name)
        asked = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        started = False

        async def report(progress: float, total: float | None, message: str | None) -> None:
            ctx.progress(one_line(message or ""), min(max(progress / total, 0.0), 1.0) if total else None)

        try:
            async with asyncio.timeout(self._server.timeout_s):
                client = await self._client()
                started = True
                # `call_tool` is not used, because it validates the result against the server's output schema, and
                # matching a pattern of that schema may take forever.
                result = await client.session.send_request(asked, _ANSWER, progress_callback=report)
        except TimeoutError as error:
            raise ToolFailure(
                timed_out(self._server.timeout_s),
                failure_class=FailureClass.RETRYABLE,
                reason="timeout",
                retry_after=GRACE_S,
                may_have_started=started,
                end="timeout",
            ) from error
        except MCPError as error:
            raise self._failure(error) from error
        except ValidationError as error:
            raise _failed("the answer violates the protocol", FailureClass.DIAGNOSTIC, "bad_response") from error
        if isinstance(result, InputRequiredResult):
            raise _failed("the server asks the user a question, which is not supported", FailureClass.FATAL, "asks")
        if result.is_error:
            said = clean(text_of(result.content), ERROR_BYTES)
            raise ToolFailure(said or "Tool execution error: no reason was given")
        return await asyncio.to_thread(produced, self._name, result, ctx.workspace)

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def _client(self) -> Client:
        """Return the client of the open connection.

        Raises:
            ToolFailure: There is no connection. The failure says that no call was started.
        """
        try:
            return await self._connection.client()
        except ToolFailure as error:
            status = self._http.status if self._http is not None else 0
            if status in DENIED:
                raise not_let_in(self._name, status, "headers") from error
            raise

    def _announce(self) -> None:
        self._changed()

    def _streams(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        if self._server.command is not None:
            return process_streams(self._name, self._server.command, ended)
        self._http = Bounded()
        return http_streams(self._server.url, self._server.headers, self._http)

    def _drop_if_gone(self, error: MCPError) -> bool:
        gone = error.code == CONNECTION_CLOSED or _SESSION_GONE in error.message
        if gone:
            self._connection.drop()
        return gone

    def _failure(self, error: MCPError) -> ToolFailure:
        """Convert an error to a failure. The SDK hides the HTTP status of an error, so the last response's is used."""
        status = self._http.status if self._http is not None else 0
        if self._drop_if_gone(error):
            # A server that does not know the session has not processed the call.
            unknown_session = _SESSION_GONE in error.message
            return _failed(first_of(error), FailureClass.RETRYABLE, "unreachable", may_have_started=not unknown_session)
        if status in DENIED:
            return _failed(f"{first_of(error)} (status {status})", FailureClass.FATAL, "denied")
        if status in _PASSES:
            return _failed(f"{first_of(error)} (status {status})", FailureClass.RETRYABLE, "server_error")
        return _failed(first_of(error), FailureClass.DIAGNOSTIC, "protocol_error")


def _failed(said: str, failure_class: FailureClass, reason: str, *, may_have_started: bool = True) -> ToolFailure:
    text = f"Tool execution error: {said}"
    return ToolFailure(text, failure_class=failure_class, reason=reason, may_have_started=may_have_started)
