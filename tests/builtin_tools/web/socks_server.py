"""A SOCKS 5 server on loopback that resolves all names to loopback, as a proxy in another network would."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class SocksServer:
    """A running server, and what it was asked.

    Attributes:
        requests: The user name, host and port of each connection that was requested.
        reply: The reply code of all requests; 0 connects.
    """

    port: int = 0
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    reply: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def serving_socks() -> AsyncIterator[SocksServer]:
    """Serve until the end of the block."""
    server = SocksServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await _serve(server, reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(server: SocksServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, methods = await reader.readexactly(2)
    if 2 not in await reader.readexactly(methods):
        writer.write(b"\x05\xff")
        return
    writer.write(b"\x05\x02")
    await reader.readexactly(1)
    user = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    await reader.readexactly((await reader.readexactly(1))[0])
    writer.write(b"\x01\x00")
    _, _, _, kind = await reader.readexactly(4)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    else:
        host = ".".join(map(str, await reader.readexactly(4)))
    port = int.from_bytes(await reader.readexactly(2), "big")
    server.requests.append((user, host, port))
    writer.write(bytes((5, server.reply, 0, 1, 0, 0, 0, 0, 0, 0)))
    if server.reply:
        await writer.drain()
        return
    there, back = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        with contextlib.suppress(OSError):
            sink.close()
