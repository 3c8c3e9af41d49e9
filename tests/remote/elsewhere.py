"""A module on loopback whose answers are controlled byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """A request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Elsewhere:
    """A server on raw sockets. `manifest` and `execute` are its answers, `asked` the received requests in order."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    manifest: Answer | None = None
    execute: Answer | None = None
    broken: list[Asked] = field(default_factory=list)  # requests whose client was gone before the answer was

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked_for(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path == path]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(method, path, headers, body)
                self.asked.append(asked)
                answer = self.manifest if path == "/manifest" else self.execute
                assert answer is not None
                try:
                    await answer(asked, writer)
                except (ConnectionError, asyncio.CancelledError):
                    self.broken.append(asked)
                    raise
                if writer.is_closing():
                    return


@asynccontextmanager
async def elsewhere(manifest: Any = None) -> AsyncIterator[Elsewhere]:
    """Run a server. `manifest` is its first answer; with None it never answers."""
    module = Elsewhere(manifest=answered(manifest) if manifest is not None else silent, execute=echoed)
    serving: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(module.serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    module.port = server.sockets[0].getsockname()[1]
    try:
        yield module
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def head(status: int, length: int | None, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Reason"]
    if length is not None:
        lines.append(f"content-length: {length}")
    lines += [f"{name}: {value}" for name, value in {"content-type": "application/json", **(headers or {})}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def raw(status: int, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, len(body), headers) + body)
        await writer.drain()

    return answer


def answered(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return raw(status, json.dumps(value).encode(), headers)


async def echoed(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Answer with the request as the result."""
    said = {"tool_name": asked.json["tool_name"], "success": True, "result": asked.json}
    await answered(said)(asked, writer)


async def silent(_: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def endless(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(head(200, None, {"transfer-encoding": "chunked"}))
    while True:
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()


async def dribbled(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Send single bytes with pauses, so that no single read times out."""
    writer.write(head(200, 10_000))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def cut_off(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(head(200, 1000) + b'{"tool_name": "w.')
    await writer.drain()
    writer.close()


def tool_of(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "parameters": [], **more}


def manifest_of(module: str, *tools: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"module_name": module, "description": f"The {module}.", "tools": list(tools), **more}


WEATHER = manifest_of(
    "weather",
    tool_of(
        "weather.now",
        parameters=[
            {"name": "city", "type": "string", "description": "Where.", "required": True},
            {"name": "unit", "type": "string", "description": "C or F.", "required": False, "enum": ["C", "F"]},
        ],
    ),
    tool_of("weather.set.alarm", parameters={"type": "object", "properties": {"at": {"type": "integer"}}}),
)
