"""Serves an ASGI application on a free loopback port."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette

_STOP_WAIT_S = 5


@asynccontextmanager
async def serve(application: Starlette) -> AsyncIterator[str]:
    """Serve the application inside the context, and yield its base URL.

    Raises:
        OSError: No port is free.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        # Not `serve()`, which would handle Ctrl-C instead of the command.
        task = asyncio.create_task(server._serve([listening]))  # noqa: SLF001
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.wait([task], timeout=_STOP_WAIT_S)


def dead_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
