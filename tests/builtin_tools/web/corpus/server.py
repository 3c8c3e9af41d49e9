"""Serves the corpus: in a thread of a test, or as a program in the network behind the Tor exit.

    python -m tests.builtin_tools.web.corpus.server --host 203.0.113.80 --certificate cert.pem --key key.pem

It prints ``ready`` and the number of pages when it can be used, and ends with its standard input.
"""

import argparse
import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.builtin_tools.web.corpus.web import CorpusWeb

_READY_S = 30


def _server(web: Any, host: str, port: int, **tls: str) -> uvicorn.Server:
    config = uvicorn.Config(
        web, host=host, port=port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, **tls
    )
    return uvicorn.Server(config)


def port_of(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


@contextmanager
def serving_corpus(web: CorpusWeb) -> Iterator[int]:
    """Serve the corpus over HTTP on loopback, in a thread, and yield the port."""
    server = _server(web, "127.0.0.1", 0)
    ready = threading.Event()

    async def serve() -> None:
        task = asyncio.create_task(server.serve())
        while not server.started and not task.done():
            await asyncio.sleep(0)
        ready.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(_READY_S)
    try:
        yield port_of(server)
    finally:
        server.should_exit = True
        thread.join(_READY_S)


async def _main(arguments: argparse.Namespace) -> None:
    web = await asyncio.to_thread(CorpusWeb.full)
    tls = {"ssl_certfile": arguments.certificate, "ssl_keyfile": arguments.key} if arguments.certificate else {}
    servers = [_server(web, arguments.host, arguments.http_port)]
    if tls:
        servers.append(_server(web, arguments.host, arguments.https_port, **tls))
    tasks = [asyncio.create_task(server.serve()) for server in servers]
    while not all(server.started for server in servers):
        await asyncio.sleep(0.01)
    print("ready", len(web.pages), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves the corpus of the web tests.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=80)
    parser.add_argument("--https-port", type=int, default=443)
    parser.add_argument("--certificate", default="")
    parser.add_argument("--key", default="")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
