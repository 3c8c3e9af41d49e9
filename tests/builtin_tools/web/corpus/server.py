"""Serves the corpus in a thread of a test: on loopback, or on sockets in the network behind a Tor exit."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.builtin_tools.web.corpus.web import CorpusWeb

_READY_S = 30


@contextmanager
def serving_corpus(web: CorpusWeb) -> Iterator[int]:
    """Serve the corpus over HTTP on loopback, and yield the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, serving_on(web, listener):
        yield listener.getsockname()[1]


@contextmanager
def serving_on(web: CorpusWeb, listener: socket.socket, tls: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Serve the corpus on a listening socket until the end of the block.

    Args:
        web: The corpus.
        listener: The socket. It is closed at the end.
        tls: The options of uvicorn for TLS; None for HTTP.
    """
    server = uvicorn.Server(
        uvicorn.Config(web, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, **(tls or {}))
    )
    ready = threading.Event()

    async def serve() -> None:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0)
        ready.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(_READY_S)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_READY_S)
