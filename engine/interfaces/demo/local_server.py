"""An ASGI application on a free loopback port, for as long as one is inside."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette

_STOP_WAIT_S = 5


@asynccontextmanager
async def serve(application: Starlette) -> AsyncIterator[str]:
    """Yields its base URL. Raises OSError when no port can be had."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        # Not `serve()`: it would take over Ctrl-C, which belongs to the command.
        task = asyncio.create_task(server._serve([listening]))  # noqa: SLF001
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.wait([task], timeout=_STOP_WAIT_S)


def dead_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
