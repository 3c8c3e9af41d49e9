"""`LazyWebClient`: creates the web client when it is first used, because its libraries are slow to import."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from builtin_tools.web.contract import Progress, WebResponse

if TYPE_CHECKING:
    from builtin_tools.web.route.client import RoutedClient


class LazyWebClient:
    """Implements `WebClient` with a `RoutedClient`, which is created in a thread at the first request."""

    def __init__(self, create: "Callable[[], RoutedClient]") -> None:
        self._create = create
        self._client: RoutedClient | None = None
        self._creating = asyncio.Lock()

    async def get(
        self, url: str, *, circuit: str, max_bytes: int | None = None, progress: Progress | None = None
    ) -> WebResponse:
        """Request a URL. See `WebClient.get`."""
        return await (await self._ready()).get(url, circuit=circuit, max_bytes=max_bytes, progress=progress)

    async def proxy_of(self, host: str, *, circuit: str) -> tuple[str | None, str]:
        """Return the proxy URL for a library that sends its own requests. See `WebClient.proxy_of`."""
        return await (await self._ready()).proxy_of(host, circuit=circuit)

    async def aclose(self) -> None:
        """Close the client, if it was created."""
        if self._client is not None:
            await self._client.aclose()

    async def _ready(self) -> "RoutedClient":
        async with self._creating:
            if self._client is None:
                self._client = await asyncio.to_thread(self._create)
            return self._client
