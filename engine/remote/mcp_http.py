"""Connects to an MCP server over streamable HTTP, with the SDK's transport and a limit on the size of responses."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client.streamable_http import streamable_http_client

from engine.remote.mcp_process import MOST_LINE

CONNECT_S = 10.0
STREAM_S = 3600.0  # the longest silence on an event stream; calls have their own deadline


class Bounded(httpx2.AsyncHTTPTransport):
    """An HTTP transport that aborts a response whose body is too large for a message.

    It does not limit event streams, whose events the SDK limits.

    Attributes:
        status: The status of the last response, 0 before the first one. The SDK does not report it after a failure.
    """

    status = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        self.status = response.status_code
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not events and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > MOST_LINE:
                raise httpx2.StreamError(f"the body is larger than {MOST_LINE >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def http_streams(url: str, headers: Mapping[str, str], transport: Bounded) -> AsyncIterator[object]:
    """Open the SDK's streams to the server at `url`, ignoring proxies set in the environment."""
    timeout = httpx2.Timeout(CONNECT_S, read=STREAM_S)
    sent = {"accept-encoding": "identity", **headers}
    client = httpx2.AsyncClient(transport=transport, headers=sent, timeout=timeout, trust_env=False)
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MOST_LINE) as streams:
        yield streams
