"""What is refused before any route sees it: strange hosts, pages of browsers, bodies without end or sense."""

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
from engine.interfaces.http.answers import HttpProblem, to_json
from engine.interfaces.http.edge import BodyLimits, Edge, Names, ReadRoute
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
    """All that a server answers to these bytes, until it closes."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            for each in sent:
                writer.write(each)
                await writer.drain()
                await asyncio.sleep(pause_s)
        except ConnectionError:
            pass  # it has seen enough; what it said is read below
        said = b""
        try:
            while part := await reader.read(65536):
                said += part
        except ConnectionError:
            pass
        writer.close()
        return said


def head(server: Server, first: str, *lines: str, host: str = "127.0.0.1") -> bytes:
    said = [first, f"Host: {host}", f"Authorization: Bearer {server.token(ME)}", *lines, "", ""]
    return "\r\n".join(said).encode("latin-1")


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
async def test_a_host_that_is_not_ours_is_refused_although_the_token_is_right(server: Server, host: str) -> None:
    async with server.client(ME) as client:
        for path in ("/manifest", "/health"):
            answer = await client.get(path, headers={"Host": host})
            assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:99", "[::1]:80"])
async def test_the_names_of_loopback_are_ours(server: Server, host: str) -> None:
    async with server.client(ME) as client:
        assert (await client.get("/manifest", headers={"Host": host})).status_code == 200


def test_a_server_on_all_addresses_takes_addresses_and_no_names_but_its_own() -> None:
    names = Names(frozenset({"box.example"}), any_address=True)
    assert all(names.allow(host) for host in ("10.0.0.7:80", "[fd00::1]", "box.example", "BOX.example:443"))
    assert not any(names.allow(host) for host in ("evil.example", "10.0.0.7.evil.example", "", "1"))


async def test_two_hosts_in_one_request_are_none(server: Server) -> None:
    said = await raw(server, [head(server, "GET /manifest HTTP/1.1", "Host: evil.example")])
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", ""])
async def test_a_page_in_a_browser_is_refused_whatever_its_origin(server: Server, origin: str) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": "paid"}, headers={"Origin": origin})
        assert answer.status_code == 403
        preflight = await client.options("/api/call", headers={"Origin": origin})
        assert preflight.status_code == 403
        for answered in (answer, preflight):
            assert not [name for name in answered.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
async def test_a_simple_post_of_a_form_is_refused(server: Server, kind: str) -> None:
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
async def test_a_body_that_no_tool_could_take_is_refused(server: Server, body: bytes) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_whole_surrogate_pair_is_a_character(server: Server) -> None:
    async with server.client(ME) as client:
        body = rb'{"name": "echo", "arguments": {"value": "\ud83d\ude00 \\ud800"}}'
        answer = await client.post("/api/call", content=body, headers={"Content-Type": "application/json"})
        assert answer.json()["output"] == "\U0001f600 \\ud800"


async def test_what_a_tool_gives_back_cannot_break_the_answer(server: Server) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": "odd"})
        assert answer.json()["success"]
        assert answer.content.isascii()
        async with client.stream("POST", "/api/call/stream", json={"name": "odd"}) as stream:
            lines = [line async for line in stream.aiter_lines()]
        assert [line for line in lines if line.startswith("event:")] == ["event: call", "event: result"]


def test_what_json_has_not_becomes_what_it_has() -> None:
    around: list[object] = []
    around.append(around)
    for value in (float("nan"), {1: float("-inf"), (2, 3): b"x"}, around, "\ud800\u2028\r\n", object()):
        said = to_json({"value": value, "kept": 1})
        assert said.isascii()
        assert "\n" not in said
        assert json.loads(said, parse_constant=pytest.fail)["kept"] == 1


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", f"Content-Length: {MOST + 1}")
    assert b" 413 " in await raw(server, [first])


async def test_a_body_without_end_is_refused_at_the_limit(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    chunk = b"2000\r\n" + b"[" * 0x2000 + b"\r\n"
    assert b" 413 " in await raw(server, [first, chunk, chunk, chunk], pause_s=0.05)


async def test_a_body_that_trickles_is_given_up(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000")
    assert b" 408 " in await raw(server, [first, b"{"])


async def test_a_body_of_somebody_without_a_token_is_not_read(server: Server) -> None:
    first = (
        b"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    assert b" 401 " in await raw(server, [first])


async def test_a_head_that_does_not_come_is_given_up(server: Server) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def after_one() -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(whole)
            said = await reader.readuntil(b"}")  # all of the answer; a head before that would be sent ahead
            writer.write(b"GET /heal")
            said += await reader.read()
            writer.close()
            return said

    nothing, half, second = await asyncio.gather(
        raw(server, [b""]), raw(server, [b"GET /health HTTP/1.1\r\nHos"]), after_one()
    )
    assert nothing == half == b""
    assert second.count(b"HTTP/1.1 200") == 1


async def test_a_head_without_end_is_refused(server: Server) -> None:
    first = head(server, "GET /health HTTP/1.1")[:-2]
    said = await raw(server, [first, *[b"X-A: " + b"a" * 8_000 + b"\r\n"] * 4])
    assert b"200" not in said[:20]


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
async def test_a_path_leads_nowhere_but_to_a_route(server: Server, path: str) -> None:
    said = await raw(server, [head(server, f"GET {path} HTTP/1.1", "Connection: close")])
    status = int(said.split(b" ", 2)[1])
    assert status in {403, 404, 405}
    assert b"root:" not in said
    assert b"set-cookie" not in said.lower().split(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\r\nX-Injected: 1", "tests/../whoami", "\x00", "__class__", " "]
)
async def test_a_name_of_a_tool_is_looked_up_and_nothing_else(server: Server, name: str) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json={"name": name})
        assert answer.json()["failure"]["reason"] == "unknown_tool"
        assert "x-injected" not in answer.headers
        other = await client.post("/execute", json={"tool_name": f"knackbox.{name}"})
        assert other.json()["success"] is False


async def test_no_answer_is_kept_or_guessed_at(server: Server) -> None:
    async with server.client(ME) as client:
        for path in ("/manifest", "/nothing", "/health"):
            headers = (await client.get(path)).headers
            assert headers["cache-control"] == "no-store"
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


async def test_a_connection_that_is_cut_in_a_body_harms_nobody(server: Server) -> None:
    first = head(server, "POST /api/call HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(first + b"{")
    async with server.client(ME) as client:
        assert (await client.get("/health")).status_code == 200


async def test_no_token_is_written_to_the_log(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        await client.get("/manifest", headers={"Authorization": "Bearer secret-of-somebody"})
    log = (server.home.root / "stderr").read_text()
    assert "secret-of-somebody" not in log
    assert all(token not in log for token in server.made.values())
    assert "Traceback" not in log


@pytest.mark.spec("FACE-3", "CALL-14")
@pytest.mark.parametrize("inner", ["[],", "1,", '{"":{}},'])
async def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    monkeypatch.setattr(edge, "read_json", pytest.fail)
    body = f'{{"name": "x", "arguments": {{"x": [{inner * (MAX_NODES + 1)}1]}}}}'.encode()
    with pytest.raises(HttpProblem, match=r"over 100,000 lists, objects and elements") as refused:
        await edge.read_off_the_loop(JSON, body)
    assert refused.value.status == 413


@pytest.mark.spec("CALL-14")
@pytest.mark.parametrize(("text", "in_a_thread"), [("x", False), ("x" * 100_000, True)])
async def test_a_large_body_is_decoded_once_and_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, text: str, in_a_thread: bool
) -> None:
    threads: list[bool] = []

    def read_json(body: bytes) -> object:
        threads.append(threading.current_thread() is not threading.main_thread())
        return json.loads(body)

    monkeypatch.setattr(edge, "read_json", read_json)
    routed = FastAPI()
    routed.router.routes.append(ReadRoute("/", length, methods=["POST"]))
    app = Edge(routed, find=lambda _: ME, names=Names(frozenset({"test"})), body=BodyLimits(1 << 20, 20))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.post("/", json={"text": text}, headers={"Authorization": "Bearer t"})
    assert answer.json() == len(text)
    assert threads == [in_a_thread]
