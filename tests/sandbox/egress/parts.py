"""Real servers on loopback, a certificate authority for tests, and a resolver that returns what a test sets."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.descriptors import open_descriptors

DEADLINE_S = 20.0
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Names:
    """A resolver.

    Attributes:
        answers: For each name, the result of each lookup in turn; the last one is repeated.
        asked: The names that were looked up.
    """

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        turns = self.answers.get(host)
        if turns is None:
            raise OSError(f"no such name: {host}")
        return turns.pop(0) if len(turns) > 1 else turns[0]


@dataclass
class Server:
    """A server, with the connections and requests that it has received."""

    port: int
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    ended: list[asyncio.Event] = field(default_factory=list)


@asynccontextmanager
async def serving(handler: Handler, *, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve, with `handler` called for each connection. A connection is closed when its handler returns."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        ended = asyncio.Event()
        seen.ended.append(ended)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            ended.set()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context, backlog=256)
    seen = Server(server.sockets[0].getsockname()[1])
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def http(
    *, status: str = "200 OK", fields: str = "", body: bytes = b"hello", seen: list[bytes] | None = None
) -> Handler:
    """Return a handler that sends the same response to every request, and keeps the connection open."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if seen is not None:
                seen.append(head)
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body)
            await writer.drain()

    return handler


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back the data of the client until its end, then end the stream."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write(b"|end")
    await writer.drain()


@dataclass
class Authority:
    """A certificate authority that only the tests trust."""

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test's authority")])
        self.certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, *hosts: str) -> ssl.SSLContext:
        """Return the TLS context of a server with these host names."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        certificate = self._signed(name, key, x509.BasicConstraints(ca=False, path_length=None), names)
        path = self.folder / f"{hosts[0]}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def open_sockets() -> list[str]:
    """Return the sockets that this process has open, by inode."""
    return sorted(each for each in open_descriptors() if each.startswith("socket:"))
