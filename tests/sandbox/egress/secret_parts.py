"""A server that reveals what it receives in many ways, and what searches for a value in everything that a box gets."""

import asyncio
import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from sandbox.secrets.secret import Secret, SecretHost, placeholder_of
from tests.sandbox.egress.parts import Handler

KEY = b"a key of a test, 32 bytes long.."
VALUE = "s3cr3t/Val+ue=42&Zq"
NAME = "TOKEN"
PLACEHOLDER = placeholder_of(NAME, KEY)


def secret(*hosts: SecretHost, name: str = NAME, value: str = VALUE) -> Secret:
    return Secret(name, placeholder_of(name, KEY), value, hosts)


def reveals(data: bytes | str, value: str = VALUE) -> bool:
    """Return whether data contains the value in any form that a program could turn back without effort."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    forms = [
        value.encode(),
        quote(value, safe="").encode(),
        quote_plus(value).encode(),
        value.encode().hex().encode(),
        json.dumps(value)[1:-1].encode(),
        value[:12].encode(),
        value[-12:].encode(),
    ]
    low = raw.lower()
    if any(form.lower() in low for form in forms):
        return True
    encoded = raw.replace(b"-", b"+").replace(b"_", b"/")
    return any(base64.b64encode(bytes(shift) + value.encode())[4:-4] in encoded for shift in range(3))


@dataclass
class Seen:
    """The requests that a server has received: their heads and bodies."""

    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def everything(self) -> bytes:
        return b"".join(self.heads + self.bodies)


async def read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Return the body of a request, without its chunked framing."""
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body
    return await reader.readexactly(int(fields.get(b"content-length", b"0")))


def _whole(body: bytes, status: str = "200 OK", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n" % (status.encode(), len(body), fields) + body


def _chunked(parts: list[bytes], trailer: bytes = b"") -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailer + b"\r\n"


def _credential(head: bytes) -> bytes:
    """Return the value of the request's field X-Key."""
    return next((line[7:] for line in head.split(b"\r\n") if line.lower().startswith(b"x-key: ")), b"none")


# For each path, what the server answers to (head, body).
ANSWERS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "/echo": lambda head, body: _whole(head + body),
    "/upper": lambda head, body: _whole((head + body).upper()),
    "/header": lambda head, body: _whole(b"", fields=b"X-Echo: " + _credential(head) + b"\r\n"),
    "/cookie": lambda head, body: _whole(b"", fields=b"Set-Cookie: k=" + _credential(head) + b"; Path=/\r\n"),
    "/name": lambda head, body: _whole(
        b"", fields=_credential(head).replace(b"/", b"").replace(b"=", b"") + b": x\r\n"
    ),
    "/status": lambda head, body: _whole(b"", status="200 key " + _credential(head).decode()),
    "/error": lambda head, body: _whole(b"bad key " + _credential(head), status="401 Unauthorized"),
    "/gzip": lambda head, body: _whole(gzip.compress(head + body), fields=b"Content-Encoding: gzip\r\n"),
    "/twice": lambda head, body: _whole(
        gzip.compress(head), fields=b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"
    ),
    "/split": lambda head, body: _chunked([(head + body)[at : at + 3] for at in range(0, len(head + body), 3)]),
    "/trailer": lambda head, body: _chunked([b"x"], b"X-Echo: " + _credential(head) + b"\r\n"),
    "/hex": lambda head, body: _whole(_credential(head).hex().encode()),
    "/base64": lambda head, body: _whole(base64.b64encode(b"key=" + _credential(head) + b";")),
    "/json": lambda head, body: _whole(json.dumps({"key": _credential(head).decode()}).encode()),
    "/quoted": lambda head, body: _whole(quote(_credential(head).decode(), safe="").encode()),
    "/interim": lambda head, body: (
        b"HTTP/1.1 103 Early Hints\r\nX-Echo: " + _credential(head) + b"\r\n\r\n" + _whole(b"ok")
    ),
    "/upgrade": lambda head, body: (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n" + _credential(head)
    ),
    "/partial": lambda head, body: _whole(
        _credential(head)[:14], "206 Partial Content", b"Content-Range: bytes 0-13/19\r\n"
    ),
    "/not-http": lambda head, body: b"hello " + _credential(head) + b"\r\n\r\n",
    "/bad-header": lambda head, body: b"HTTP/1.1 200 OK\r\nbad header " + _credential(head) + b"\r\n\r\n",
    "/more": lambda head, body: _whole(b"ok") + _whole(_credential(head)),
    "/cut-off": lambda head, body: _whole(b"ok " + _credential(head))[:-4],
    "/close": lambda head, body: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head + body,
    "/alt": lambda head, body: _whole(b"ok", fields=b'Alt-Svc: h3="evil.test:443"\r\n'),
}


def revealing(seen: Seen, redirect: str = "") -> Handler:
    """Return a handler that answers by `ANSWERS`, or to /redirect with a redirect that contains the credential."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await read_body(reader, head)
        seen.heads.append(head)
        seen.bodies.append(body)
        path = head.split(b" ")[1].split(b"?")[0].decode()
        if path == "/redirect":
            location = redirect.encode() + _credential(head)
            writer.write(_whole(b"", "302 Found", b"Location: " + location + b"\r\n"))
        else:
            writer.write(ANSWERS.get(path, ANSWERS["/echo"])(head, body))
        await writer.drain()

    return handler
