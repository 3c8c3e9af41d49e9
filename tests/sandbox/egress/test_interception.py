"""What a hostile client gets from a destination that has a secret: everything but the value.

The gateway is tried without a box: its sockets listen on this machine's loopback. The servers are real, with TLS.
"""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest

from sandbox.contract import Connection, Destination
from sandbox.egress.gateway import Gateway
from sandbox.egress.interception import Interception
from sandbox.egress.plan import EgressPlan, Outlet
from sandbox.egress.rules import EgressRules
from sandbox.secrets.secret import Secret, SecretHost
from tests.eventually import eventually
from tests.sandbox.egress.parts import DEADLINE_S, Authority, Names, http, open_sockets, serving
from tests.sandbox.egress.secret_parts import ANSWERS, PLACEHOLDER, VALUE, Seen, revealing, reveals, secret

pytestmark = [pytest.mark.spec("CODE-7"), pytest.mark.escapes]
HOST, OTHER = "api.test", "other.test"


@dataclass
class Way:
    """A gateway, and what a program in a box would know of it."""

    gateway: Gateway
    proxy: int
    direct: dict[Destination, int]
    authority: str

    @property
    def log(self) -> tuple[Connection, ...]:
        return self.gateway.connections

    async def connect(
        self,
        to: Destination,
        *,
        name: str | None = HOST,
        tls: bool = True,
        alpn: Sequence[str] = (),
        trusted: str = "",
        verify: bool = True,
        tunnel: bool = False,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as a program would, directly or by a tunnel through the proxy."""
        port = self.proxy if tunnel else self.direct[to]
        if not tunnel and not tls:
            return await asyncio.open_connection("127.0.0.1", port)
        context = ssl.create_default_context(cadata=trusted or self.authority) if tls else None
        if context is not None:
            context.check_hostname = verify and name is not None
            context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
            if alpn:
                context.set_alpn_protocols(list(alpn))
        async with asyncio.timeout(DEADLINE_S):
            if not tunnel:
                return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            if context is not None:
                await writer.start_tls(context, server_hostname=name)
            return reader, writer

    async def ask(self, to: Destination, request: bytes, **how: object) -> bytes:
        """Send a request, and return everything up to the end of the stream, or up to where it broke."""
        reader, writer = await self.connect(to, **how)  # type: ignore[arg-type]
        got = b""
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(request)
                await writer.drain()
                while data := await reader.read(1 << 16):
                    got += data
        except (ConnectionError, ssl.SSLError):
            got += b"|broken"
        finally:
            writer.transport.abort()
        return got


@asynccontextmanager
async def opened(
    *destinations: Destination,
    secrets: Sequence[Secret],
    trusted: bytes = b"",
    names: Names | None = None,
    private: Sequence[str] = (HOST, OTHER),
) -> AsyncIterator[Way]:
    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cadata=trusted.decode()) if trusted else ssl.create_default_context()

    names = names or Names({HOST: [["127.0.0.1"]], OTHER: [["127.0.0.1"]]})
    interception = Interception(secrets, trust)
    _, authority = await interception.environment(destinations)
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(len(destinations) + 1)]
    ports = [listener.getsockname()[1] for listener in listeners]
    outlets = [Outlet("127.0.0.1", port, to) for port, to in zip(ports, (None, *destinations), strict=True)]
    rules = EgressRules(allow_private=frozenset(private))
    gateway = Gateway(EgressPlan(tuple(outlets), ""), rules, names, None, interception)
    gateway.open([listener.detach() for listener in listeners])
    try:
        yield Way(gateway, ports[0], dict(zip(destinations, ports[1:], strict=True)), authority)
    finally:
        await gateway.aclose()


@asynccontextmanager
async def api(folder: Path, redirect: str = "") -> AsyncIterator[tuple[Way, Destination, Seen]]:
    """Yield a gateway to a server with TLS to which the secret belongs."""
    seen, authority = Seen(), Authority(folder)
    async with serving(revealing(seen, redirect), context=authority.context(HOST)) as server:
        to = Destination(HOST, server.port)
        secrets = [secret(SecretHost(HOST, server.port))]
        async with opened(to, secrets=secrets, trusted=authority.pem) as way:
            yield way, to, seen


@asynccontextmanager
async def plain_api(redirect: str = "") -> AsyncIterator[tuple[Way, Destination, Seen]]:
    """Yield a gateway to a server without TLS to which the secret belongs."""
    seen = Seen()
    async with serving(revealing(seen, redirect)) as server:
        to = Destination(HOST, server.port)
        async with opened(to, secrets=[secret(SecretHost(HOST, server.port, tls=False))]) as way:
            yield way, to, seen


def get(to: Destination, path: str = "/echo", fields: str = f"X-Key: {PLACEHOLDER}\r\n") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {to}\r\n{fields}\r\n".encode()


def post(to: Destination, body: bytes, fields: str = "", path: str = "/echo") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {len(body)}\r\n{fields}\r\n"
    return head.encode() + body


@pytest.mark.parametrize("tunnel", [False, True], ids=["outlet", "proxy"])
async def test_the_server_gets_the_value_and_the_client_only_the_placeholder(tmp_path: Path, tunnel: bool) -> None:
    async with api(tmp_path) as (way, to, seen):
        got = await way.ask(to, get(to), tunnel=tunnel)
        await eventually(lambda: len(way.log) == 1)
    assert f"X-Key: {VALUE}\r\n".encode() in seen.heads[0]
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert PLACEHOLDER.encode() in got
    assert got.endswith(b"0\r\n\r\n")
    assert not reveals(got)
    assert way.log[0].reason == "ended"
    assert way.log[0].sent_bytes > 0
    assert not reveals(repr(way.log))


@pytest.mark.parametrize("tunnel", [False, True], ids=["outlet", "proxy"])
async def test_plain_http_is_substituted_for_a_host_that_permits_it(tunnel: bool) -> None:
    async with plain_api() as (way, to, seen):
        got = await way.ask(to, get(to), tls=False, tunnel=tunnel)
    assert VALUE.encode() in seen.heads[0]
    assert PLACEHOLDER.encode() in got
    assert not reveals(got)


async def test_a_plain_request_to_the_proxy_is_substituted(tmp_path: Path) -> None:
    async with plain_api() as (way, to, seen):
        reader, writer = await asyncio.open_connection("127.0.0.1", way.proxy)
        writer.write(f"GET http://{to}/echo HTTP/1.1\r\nHost: {to}\r\nX-Key: {PLACEHOLDER}\r\n\r\n".encode())
        got = await asyncio.wait_for(reader.read(), DEADLINE_S)
        writer.close()
    assert VALUE.encode() in seen.heads[0]
    assert PLACEHOLDER.encode() in got
    assert not reveals(got)


@pytest.mark.parametrize("path", sorted(ANSWERS))
async def test_however_the_server_returns_the_value_the_client_does_not_get_it(tmp_path: Path, path: str) -> None:
    async with api(tmp_path) as (way, to, seen):
        got = await way.ask(to, get(to, path))
        await eventually(lambda: len(way.log) == 1)
    assert VALUE.encode() in seen.everything, "the attack did not reach the server"
    assert not reveals(got), got
    assert not reveals(repr(way.log))
    assert b"evil.test" not in got
    if path == "/cut-off":
        assert got.endswith(b"|broken"), "a truncated response must not look complete"


@pytest.mark.parametrize("path", ["/gzip", "/twice", "/partial", "/upgrade", "/not-http", "/bad-header"])
async def test_a_response_that_cannot_be_redacted_is_refused_with_the_reason(tmp_path: Path, path: str) -> None:
    async with api(tmp_path) as (way, to, _):
        got = await way.ask(to, get(to, path))
        await eventually(lambda: len(way.log) == 1)
    assert got.startswith(b"HTTP/1.1 502 ")
    assert way.log[0].reason != "ended"


async def test_the_value_does_not_follow_a_redirect_to_another_host(tmp_path: Path) -> None:
    """Follow a redirect by hand, with the placeholder where a program would put it."""
    other, authority = Seen(), Authority(tmp_path)
    async with serving(revealing(other), context=authority.context(OTHER)) as stranger:
        there = Destination(OTHER, stranger.port)
        seen = Seen()
        async with serving(revealing(seen, f"https://{there}/?k="), context=authority.context(HOST)) as server:
            to = Destination(HOST, server.port)
            secrets = [secret(SecretHost(HOST, server.port))]
            async with opened(to, there, secrets=secrets, trusted=authority.pem) as way:
                got = await way.ask(to, get(to, "/redirect"))
                location = got.split(b"location: " if b"location: " in got else b"Location: ")[1].split(b"\r\n")[0]
                followed = await way.ask(there, get(there), name=OTHER, trusted=authority.pem.decode())
    assert VALUE.encode() in seen.heads[0]
    assert not reveals(got)
    assert location.endswith(PLACEHOLDER.encode())
    assert PLACEHOLDER.encode() in other.heads[0], "the other host is reached end to end"
    assert not reveals(other.everything)
    assert not reveals(followed)


async def test_a_destination_without_a_secret_stays_end_to_end(tmp_path: Path) -> None:
    authority, seen = Authority(tmp_path), Seen()
    async with serving(revealing(seen), context=authority.context(OTHER)) as server:
        there = Destination(OTHER, server.port)
        async with opened(there, secrets=[secret(SecretHost(HOST, server.port))], trusted=authority.pem) as way:
            assert way.authority == ""
            await way.ask(there, get(there), name=OTHER, trusted=authority.pem.decode())
    assert PLACEHOLDER.encode() in seen.heads[0]
    assert not reveals(seen.everything)


REFUSED = [
    ("another Host", lambda to: f"GET /echo HTTP/1.1\r\nHost: {OTHER}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("another port in Host", lambda to: f"GET /echo HTTP/1.1\r\nHost: {HOST}:1\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("no Host", lambda to: f"GET /echo HTTP/1.0\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("two Hosts", lambda to: f"GET /echo HTTP/1.1\r\nHost: {to}\r\nHost: {OTHER}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("a target on another host", lambda to: f"GET https://{OTHER}/echo HTTP/1.1\r\nHost: {to}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("CONNECT inside", lambda to: f"CONNECT {OTHER}:443 HTTP/1.1\r\nHost: {to}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("TRACE", lambda to: f"TRACE /echo HTTP/1.1\r\nHost: {to}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("a WebSocket", lambda to: f"GET /upgrade HTTP/1.1\r\nHost: {to}\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("h2c", lambda to: f"GET /upgrade HTTP/1.1\r\nHost: {to}\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nX-Key: {PLACEHOLDER}\r\n\r\n"),
    ("HTTP/2 without asking", lambda to: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("two lengths", lambda to: f"POST /echo HTTP/1.1\r\nHost: {to}\r\nContent-Length: 1\r\nContent-Length: 70\r\nX-Key: {PLACEHOLDER}\r\n\r\nx"),
    ("an unknown coding", lambda to: f"POST /echo HTTP/1.1\r\nHost: {to}\r\nTransfer-Encoding: gzip, chunked\r\nX-Key: {PLACEHOLDER}\r\n\r\n0\r\n\r\n"),
    ("a space before the colon", lambda to: f"GET /echo HTTP/1.1\r\nHost: {to}\r\nX-Key : {PLACEHOLDER}\r\n\r\n"),
    ("not HTTP", lambda to: f"hello {PLACEHOLDER}\r\n\r\n"),
]  # fmt: skip


@pytest.mark.parametrize("request_of", [each[1] for each in REFUSED], ids=[each[0] for each in REFUSED])
async def test_a_request_that_is_not_clearly_for_the_destination_never_leaves(tmp_path: Path, request_of) -> None:
    async with api(tmp_path) as (way, to, seen):
        got = await way.ask(to, request_of(to).encode())
        await eventually(lambda: len(way.log) == 1)
    assert seen.heads == []
    assert got.startswith(b"HTTP/1.1 4"), got
    assert not reveals(got)
    assert way.log[0].reason != "ended"


async def test_a_smuggled_second_request_is_not_forwarded(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        second = get(to, "/gzip")
        both = await way.ask(to, get(to) + second)
        within = f"POST /echo HTTP/1.1\r\nHost: {to}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunked = await way.ask(to, within.encode() + b"1\r\nx\r\n0\r\n\r\n" + second)
    assert len(seen.heads) == 2
    assert not any(b"/gzip" in each for each in seen.heads)
    assert b"content-length" not in seen.heads[1].lower(), "one way of framing, written anew"
    assert b"Transfer-Encoding: chunked" in seen.heads[1]
    assert seen.bodies[1] == b"x"
    for got in (both, chunked):
        assert not reveals(got)


async def test_a_request_with_a_bare_line_feed_reaches_the_server_in_strict_form(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        got = await way.ask(to, f"GET /echo HTTP/1.1\nHost: {to}\nX-Key: {PLACEHOLDER}\n\n".encode())
    assert not reveals(got)
    for head in seen.heads:
        assert b"\n" not in head.replace(b"\r\n", b"")


@pytest.mark.parametrize("name", [OTHER, "evil.api.test", None], ids=["other", "subdomain", "none"])
async def test_another_server_name_ends_the_handshake(tmp_path: Path, name: str | None) -> None:
    async with api(tmp_path) as (way, to, seen):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await way.connect(to, name=name, verify=False)
        await eventually(lambda: len(way.log) == 1)
    assert seen.heads == []
    assert "TLS with the program failed" in way.log[0].reason


async def test_only_http_1_is_negotiated(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, _):
        _, writer = await way.connect(to, alpn=("h2", "http/1.1"))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.transport.abort()
        _, writer = await way.connect(to, alpn=("h2",))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
        writer.transport.abort()


async def test_a_plain_connection_to_a_host_with_tls_gets_nothing(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        direct = await way.ask(to, get(to), tls=False)
        tunnelled = await way.ask(to, get(to), tls=False, tunnel=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", way.proxy)
        writer.write(f"GET http://{to}/echo HTTP/1.1\r\nHost: {to}\r\nX-Key: {PLACEHOLDER}\r\n\r\n".encode())
        asked = await asyncio.wait_for(reader.read(), DEADLINE_S)
        writer.close()
    assert asked.startswith(b"HTTP/1.1 403")
    assert b"use https" in asked
    assert not any(map(reveals, (direct, tunnelled, asked)))
    assert seen.heads == []


async def test_the_real_server_must_have_the_certificate_of_its_name(tmp_path: Path) -> None:
    """Somebody took over the name: a server that the system does not trust, or that is another one."""
    for folder, certificate in ((tmp_path / "a", HOST), (tmp_path / "b", OTHER)):
        folder.mkdir()
        authority, seen = Authority(folder), Seen()
        trusted = authority.pem if certificate == OTHER else b""
        async with serving(revealing(seen), context=authority.context(certificate)) as server:
            to = Destination(HOST, server.port)
            async with opened(to, secrets=[secret(SecretHost(HOST, server.port))], trusted=trusted) as way:
                got = await way.ask(to, get(to))
                await eventually(lambda: len(way.log) == 1)
        assert seen.heads == []
        assert not reveals(got)
        assert f"TLS with {to} failed" in way.log[0].reason


async def test_a_name_that_moves_to_a_private_address_is_not_asked(tmp_path: Path) -> None:
    seen, authority = Seen(), Authority(tmp_path)
    async with serving(revealing(seen), context=authority.context("evil.test")) as server:
        to = Destination("evil.test", server.port)
        names = Names({"evil.test": [["127.0.0.1"]]})
        secrets = [secret(SecretHost("evil.test", server.port))]
        async with opened(to, secrets=secrets, trusted=authority.pem, names=names) as way:
            got = await way.ask(to, get(to), name="evil.test", tls=False)
    assert got == b"|broken"
    assert seen.heads == []
    assert "loopback" in way.log[0].reason


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/json", json.dumps({"k": PLACEHOLDER}), {"k": 'a "quoted" \\ value é'}),
        ("application/vnd.api+json; charset=utf-8", json.dumps([PLACEHOLDER]), ['a "quoted" \\ value é']),
    ],
)
async def test_a_value_in_a_json_body_is_escaped(tmp_path: Path, kind: str, body: str, expected: object) -> None:
    value = 'a "quoted" \\ value é'
    seen = Seen()
    async with serving(revealing(seen)) as server:
        to = Destination(HOST, server.port)
        async with opened(to, secrets=[secret(SecretHost(HOST, to.port, tls=False), value=value)]) as way:
            got = await way.ask(to, post(to, body.encode(), f"Content-Type: {kind}\r\n"), tls=False)
    assert json.loads(seen.bodies[0]) == expected
    assert value.encode() not in got
    assert json.dumps(value)[1:-1].encode() not in got


async def test_values_in_forms_targets_and_basic_credentials_are_encoded(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        basic = base64.b64encode(f"user:{PLACEHOLDER}".encode()).decode()
        fields = f"Content-Type: application/x-www-form-urlencoded\r\nAuthorization: Basic {basic}\r\n"
        got = await way.ask(to, post(to, f"a=1&k={PLACEHOLDER}&b=2".encode(), fields, f"/echo?q={PLACEHOLDER}&z=1"))
    (head,), (body,) = seen.heads, seen.bodies
    assert parse_qs(body.decode()) == {"a": ["1"], "k": [VALUE], "b": ["2"]}
    assert f"/echo?q={quote(VALUE, safe='')}&z=1 HTTP/1.1".encode() in head
    sent = next(line for line in head.split(b"\r\n") if line.startswith(b"Authorization: Basic "))
    assert base64.b64decode(sent.split(b" ")[2]) == f"user:{VALUE}".encode()
    assert f"Content-Length: {len(body)}".encode() in head
    assert not reveals(got)


async def test_a_placeholder_is_substituted_wherever_the_chunks_of_a_body_split_it(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        for size in (1, 7, len(PLACEHOLDER) - 1):
            text = f"<{PLACEHOLDER}>".encode()
            parts = [text[at : at + size] for at in range(0, len(text), size)]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            head = f"POST /split HTTP/1.1\r\nHost: {to}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            got = await way.ask(to, head + chunks)
            assert seen.bodies[-1] == f"<{VALUE}>".encode()
            assert not reveals(got)


async def test_a_long_body_passes_unchanged_and_one_with_a_placeholder_is_refused(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        got = await way.ask(to, post(to, b"x" * (3 << 20), path="/header", fields=f"X-Key: {PLACEHOLDER}\r\n"))
        assert got.startswith(b"HTTP/1.1 200")
        assert len(seen.bodies[0]) == 3 << 20
        assert VALUE.encode() in seen.heads[0]
        filled = b"x" * (2 << 20) + PLACEHOLDER.encode() + b"x" * (1 << 20)
        refused = await way.ask(to, post(to, filled))
        await eventually(lambda: len(way.log) == 2)
    assert len(seen.heads) == 1
    assert b" 413 " in refused or refused == b"|broken"
    assert "chunked" in way.log[1].reason


async def test_requests_for_parts_and_for_compression_are_not_passed_on(tmp_path: Path) -> None:
    """A value that the host has stored could otherwise be read piece by piece."""
    async with api(tmp_path) as (way, to, seen):
        await way.ask(
            to, get(to, fields="Range: bytes=0-9\r\nIf-Range: x\r\nAccept-Encoding: gzip, br\r\nTE: trailers\r\n")
        )
    head = seen.heads[0].lower()
    assert b"range" not in head
    assert b"accept-encoding: identity" in head
    assert b"gzip" not in head
    assert b"\r\nte:" not in head


async def test_expect_continue_is_answered_by_the_proxy(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, seen):
        reader, writer = await way.connect(to)
        writer.write(f"POST /echo HTTP/1.1\r\nHost: {to}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
            writer.write(b"hello")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
    assert seen.bodies == [b"hello"]


async def test_head_requests_and_http_1_0_clients_work(tmp_path: Path) -> None:
    async with serving(http(body=b"")) as server:
        to = Destination(HOST, server.port)
        async with opened(to, secrets=[secret(SecretHost(HOST, to.port, tls=False))]) as way:
            head = await way.ask(to, f"HEAD / HTTP/1.1\r\nHost: {to}\r\n\r\n".encode(), tls=False)
            old = await way.ask(to, f"GET / HTTP/1.0\r\nHost: {to}\r\n\r\n".encode(), tls=False)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert old.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_each_destination_gets_only_its_own_secrets(tmp_path: Path) -> None:
    first, second, authority = Seen(), Seen(), Authority(tmp_path)
    async with (
        serving(revealing(first), context=authority.context(HOST)) as one,
        serving(revealing(second), context=authority.context(OTHER)) as two,
    ):
        a, b = Destination(HOST, one.port), Destination(OTHER, two.port)
        mine = secret(SecretHost(HOST, one.port))
        theirs = secret(SecretHost(OTHER, two.port), name="OTHERS", value="another value 77")
        async with opened(a, b, secrets=[mine, theirs], trusted=authority.pem) as way:
            both = f"X-Key: {mine.placeholder} {theirs.placeholder}\r\n"
            await way.ask(a, get(a, fields=both))
            await way.ask(b, get(b, fields=both), name=OTHER)
    assert VALUE.encode() in first.everything
    assert b"another value" not in first.everything
    assert theirs.placeholder.encode() in first.everything
    assert b"another value 77" in second.everything
    assert not reveals(second.everything)


async def test_a_destination_that_is_an_address_has_a_certificate_for_it(tmp_path: Path) -> None:
    seen, authority = Seen(), Authority(tmp_path)
    async with serving(revealing(seen), context=authority.context("127.0.0.1")) as server:
        to = Destination("127.0.0.1", server.port)
        secrets = [secret(SecretHost("127.0.0.1", to.port))]
        async with opened(to, secrets=secrets, trusted=authority.pem, private=["127.0.0.1"]) as way:
            got = await way.ask(to, get(to), name="127.0.0.1")
    assert VALUE.encode() in seen.everything
    assert PLACEHOLDER.encode() in got
    assert not reveals(got)


async def test_one_destination_cannot_be_listed_with_tls_and_without() -> None:
    with pytest.raises(ValueError, match="with TLS and without"):
        Interception([secret(SecretHost(HOST, 80), SecretHost(HOST, 80, tls=False))])


async def test_nothing_stays_open_after_broken_and_refused_connections(tmp_path: Path) -> None:
    async with api(tmp_path) as (way, to, _):
        await way.ask(to, get(to))
        before = open_sockets()
        for path in ("/cut-off", "/gzip", "/not-http", "/echo"):
            await way.ask(to, get(to, path))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await way.connect(to, name=OTHER)
        _, writer = await way.connect(to)
        writer.transport.abort()
        await eventually(lambda: len(way.log) == 7)
        await eventually(lambda: len(open_sockets()) <= len(before))
