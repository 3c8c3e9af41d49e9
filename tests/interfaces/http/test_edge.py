"""Requests that are refused before any route handles them: unknown hosts, web pages, oversized or invalid bodies."""

import asyncio
import json
import socket
import threading
from collections.abc import Sequence

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.datastructures import Headers

from engine.interfaces.http import edge
from engine.interfaces.http.edge import BodyLimits, DecodedRoute, Edge, HostNames
from engine.interfaces.http.responses import HttpProblem, to_json
from engine.interfaces.http.tokens import Caller
from sandbox.nodes import MAX_NODES
from tests.interfaces.http.servers import PLAIN, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("edge", "eve")
MOST = 20_000
DEADLINE_S = 20
JSON = Headers({"content-type": "application/json"})


class Text(BaseModel):
    text: str


async def length(body: Text) -> int:
    return len(body.text)


async def raw(server: Server, sent: Sequence[bytes], *, pause_s: float = 0.0) -> bytes:
    """Send bytes to a server and return everything it sends until it closes the connection."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            for each in sent:
                writer.write(each)
                await writer.drain()
                await asyncio.sleep(pause_s)
        except ConnectionError:
            pass  # the server closed early; its response is read below
        received = b""
        try:
            while part := await reader.read(65536):
                received += part
        except ConnectionError:
            pass
        writer.close()
        return received


def head(server: Server, first: str, *lines: str, host: str = "127.0.0.1") -> bytes:
    head_lines = [first, f"Host: {host}", f"Authorization: Bearer {server.token(ME)}", *lines, "", ""]
    return "\r\n".join(head_lines).encode("latin-1")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8765",
        "",
        "0.0.0.0",
        "127.0.0.2",
        "localhost.evil",
        "[::2]",
    ],
)
async def test_an_unknown_host_is_refused_even_with_a_valid_token(server: Server, host: str) -> None:
    async with server.client(ME) as client:
        for path in ("/manifest", "/health"):
            answer = await client.get(path, headers={"Host": host})
            assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:99", "[::1]:80"])
async def test_the_names_of_loopback_are_accepted(server: Server, host: str) -> None:
    async with server.client(ME) as client:
        assert (await client.get("/manifest", headers={"Host": host})).status_code == 200


def test_a_server_on_all_addresses_accepts_any_address_but_only_its_own_names() -> None:
    names = HostNames(frozenset({"box.example"}), any_address=True)
    assert all(names.allows(host) for host in ("10.0.0.7:80", "[fd00::1]", "box.example", "BOX.example:443"))
    assert not any(names.allows(host) for host in ("evil.example", "10.0.0.7.evil.example", "", "1"))


async def test_a_request_with_two_host_headers_is_refused(server: Server) -> None:
    response = await raw(server, [head(server, "GET /manifest HTTP/1.1", "Host: evil.example")])
    assert response.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", ""])
async def test_web_pages_of_any_origin_are_refused(server: Server, origin: str) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": "paid"}, headers={"Origin": origin})
        assert answer.status_code == 403
        preflight = await client.options("/api/call", headers={"Origin": origin})
        assert preflight.status_code == 403
        for response in (answer, preflight):
            assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
async def test_a_form_post_is_refused(server: Server, kind: str) -> None:
    async with server.client(ME) as client:
        body = json.dumps({"name": "whoami"})
        answer = await client.post("/api/call", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe{\x00}\x00",
        b'{"name": "echo", "arguments": {"value": NaN}}',
        b'{"name": "echo", "arguments": {"value": 1e999}}',
        b'{"name": "echo", "arguments": {"value": ' + b"9" * 5_000 + b"}}",
        b"[" * 9_000 + b"]" * 9_000,
        b'{"name": "echo", "arguments": {"value": ' + b"[" * 70 + b"]" * 70 + b"}}",
        b"\x00",
        rb'{"name": "echo", "arguments": {"value": "\ud800"}}',
        rb'{"name": "echo", "arguments": {"value": [{"\udfff": 1}]}}',
        rb'{"name": "\ud83d\ud83d\ude00", "arguments": {}}',
    ],
)
async def test_an_invalid_json_body_is_refused(server: Server, body: bytes) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_complete_surrogate_pair_is_accepted(server: Server) -> None:
    async with server.client(ME) as client:
        body = rb'{"name": "echo", "arguments": {"value": "\ud83d\ude00 \\ud800"}}'
        answer = await client.post("/api/call", content=body, headers={"Content-Type": "application/json"})
        assert answer.json()["output"] == "\U0001f600 \\ud800"


async def test_the_output_of_a_tool_cannot_break_the_response(server: Server) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": "odd"})
        assert answer.json()["success"]
        assert answer.content.isascii()
        async with client.stream("POST", "/api/call/stream", json={"name": "odd"}) as stream:
            lines = [line async for line in stream.aiter_lines()]
        assert [line for line in lines if line.startswith("event:")] == ["event: call", "event: result"]


def test_values_that_json_cannot_express_are_converted() -> None:
    circular: list[object] = []
    circular.append(circular)
    for value in (float("nan"), {1: float("-inf"), (2, 3): b"x"}, circular, "\ud800\u2028\r\n", object()):
        text = to_json({"value": value, "kept": 1})
        assert text.isascii()
        assert "\n" not in text
        assert json.loads(text, parse_constant=pytest.fail)["kept"] == 1


async def test_a_too_large_body_is_refused_before_it_is_read(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", f"Content-Length: {MOST + 1}")
    assert b" 413 " in await raw(server, [first])


async def test_an_endless_body_is_refused_at_the_size_limit(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    chunk = b"2000\r\n" + b"[" * 0x2000 + b"\r\n"
    assert b" 413 " in await raw(server, [first, chunk, chunk, chunk], pause_s=0.05)


async def test_a_slow_body_times_out(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000")
    assert b" 408 " in await raw(server, [first, b"{"])


async def test_a_body_is_not_read_without_a_valid_token(server: Server) -> None:
    first = (
        b"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    assert b" 401 " in await raw(server, [first])


async def test_incomplete_request_headers_time_out(server: Server) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def after_one() -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(whole)
            received = await reader.readuntil(b"}")  # the whole response, so that the next request is not pipelined
            writer.write(b"GET /heal")
            received += await reader.read()
            writer.close()
            return received

    nothing, half, second = await asyncio.gather(
        raw(server, [b""]), raw(server, [b"GET /health HTTP/1.1\r\nHos"]), after_one()
    )
    assert nothing == half == b""
    assert second.count(b"HTTP/1.1 200") == 1


async def test_too_large_request_headers_are_refused(server: Server) -> None:
    first = head(server, "GET /health HTTP/1.1")[:-2]
    response = await raw(server, [first, *[b"X-A: " + b"a" * 8_000 + b"\r\n"] * 4])
    assert b"200" not in response[:20]


@pytest.mark.parametrize(
    "path",
    [
        "/api/tools/..%2f..%2f..%2fetc%2fpasswd",
        "/api/tools/../../../../etc/passwd",
        "/api/tools/%2e%2e",
        "/api/tools/a%00b",
        "/api/tools/a%0d%0aSet-Cookie:%20a=b",
        "/api/modules/..%2f..%2fetc/execute",
        "/api/approvals/..%2fwhoami",
        "/../../etc/passwd",
        "/static/../../etc/passwd",
    ],
)
async def test_a_path_reaches_only_routes(server: Server, path: str) -> None:
    response = await raw(server, [head(server, f"GET {path} HTTP/1.1", "Connection: close")])
    status = int(response.split(b" ", 2)[1])
    assert status in {403, 404, 405}
    assert b"root:" not in response
    assert b"set-cookie" not in response.lower().split(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\r\nX-Injected: 1", "tests/../whoami", "\x00", "__class__", " "]
)
async def test_a_tool_name_is_only_looked_up(server: Server, name: str) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": name})
        assert answer.json()["failure"]["reason"] == "unknown_tool"
        assert "x-injected" not in answer.headers
        other = await client.post("/execute", json={"tool_name": f"knackbox.{name}"})
        assert other.json()["success"] is False


async def test_responses_forbid_caching_and_sniffing(server: Server) -> None:
    async with server.client(ME) as client:
        for path in ("/manifest", "/nothing", "/health"):
            headers = (await client.get(path)).headers
            assert headers["cache-control"] == "no-store"
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


async def test_a_connection_closed_during_a_body_does_no_harm(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(first + b"{")
    async with server.client(ME) as client:
        assert (await client.get("/health")).status_code == 200


async def test_tokens_are_never_logged(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        await client.get("/manifest", headers={"Authorization": "Bearer secret-of-somebody"})
    log = (server.home.root / "stderr").read_text()
    assert "secret-of-somebody" not in log
    assert all(token not in log for token in server.made.values())
    assert "Traceback" not in log


@pytest.mark.spec("FACE-3", "CALL-14")
@pytest.mark.parametrize("inner", ["[],", "1,", '{"":{}},'])
async def test_a_body_with_too_many_values_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    monkeypatch.setattr(edge, "read_json", pytest.fail)
    body = f'{{"name": "x", "arguments": {{"x": [{inner * (MAX_NODES + 1)}1]}}}}'.encode()
    with pytest.raises(HttpProblem, match=r"over 100,000 lists, objects and elements") as refused:
        await edge.decode_body(JSON, body)
    assert refused.value.status == 413


@pytest.mark.spec("CALL-14")
@pytest.mark.parametrize(("text", "in_a_thread"), [("x", False), ("x" * 100_000, True)])
async def test_a_body_is_decoded_once_and_a_large_one_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, text: str, in_a_thread: bool
) -> None:
    threads: list[bool] = []

    def read_json(body: bytes) -> object:
        threads.append(threading.current_thread() is not threading.main_thread())
        return json.loads(body)

    monkeypatch.setattr(edge, "read_json", read_json)
    routed = FastAPI()
    routed.router.routes.append(DecodedRoute("/", length, methods=["POST"]))

    async def find(_: str) -> Caller:
        return ME

    app = Edge(routed, find=find, names=HostNames(frozenset({"test"})), body=BodyLimits(1 << 20, 20))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.post("/", json={"text": text}, headers={"Authorization": "Bearer t"})
    assert answer.json() == len(text)
    assert threads == [in_a_thread]
