"""The gateway without a box: its sockets listen on this machine's loopback instead."""

import asyncio
import gc
import hashlib
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from sandbox.contract import Connection, Destination, SandboxError
from sandbox.egress.gateway import Gateway
from sandbox.egress.plan import EgressPlan, Outlet
from sandbox.egress.rules import EgressRules
from tests.eventually import eventually
from tests.sandbox.egress.parts import DEADLINE_S, Names, echo, http, open_sockets, serving

pytestmark = pytest.mark.spec("BOX-10")
HERE = frozenset({"api.test"})


@dataclass
class Out:
    """An open gateway.

    Attributes:
        proxy: The port of the proxy.
        direct: The port of each destination's outlet.
        heard: The connections of which the listener was informed.
    """

    gateway: Gateway
    proxy: int
    direct: dict[Destination, int]
    heard: list[Connection] = field(default_factory=list)

    @property
    def log(self) -> tuple[Connection, ...]:
        return self.gateway.connections


@asynccontextmanager
async def opened(*destinations: Destination, names: Names, rules: EgressRules | None = None) -> AsyncIterator[Out]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(len(destinations) + 1)]
    ports = [listener.getsockname()[1] for listener in listeners]
    outlets = [Outlet("127.0.0.1", port, to) for port, to in zip(ports, (None, *destinations), strict=True)]
    heard: list[Connection] = []
    gateway = Gateway(EgressPlan(tuple(outlets), ""), rules or EgressRules(allow_private=HERE), names, heard.append)
    gateway.open([listener.detach() for listener in listeners])
    out = Out(gateway, ports[0], dict(zip(destinations, ports[1:], strict=True)), heard)
    try:
        yield out
    finally:
        await gateway.aclose()
        kept = (rules or EgressRules()).kept
        assert heard[:kept] == list(out.log[:kept])


async def ask(port: int, request: bytes) -> bytes:
    """Send a request, and return everything up to the end of the stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            writer.write(request)
            await writer.drain()
            return await reader.read()
    finally:
        writer.close()


async def tunnel(port: int, to: Destination | str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """Open a tunnel with CONNECT, and return it with the first line of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE_S):
        head = await reader.readuntil(b"\r\n\r\n")
    return reader, writer, head.split(b"\r\n")[0]


def api(port: int) -> Destination:
    return Destination("api.test", port)


def local() -> Names:
    return Names({"api.test": [["127.0.0.1"]]})


async def test_a_request_is_forwarded_and_its_connection_ends_with_it() -> None:
    seen: list[bytes] = []
    async with serving(http(fields="Connection: keep-alive\r\n", seen=seen)) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.proxy)
            writer.write(f"GET http://{to}/x HTTP/1.1\r\nHost: {to}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
            assert await reader.readexactly(5) == b"hello"
            writer.close()  # the server would keep the connection open; the response told the client to close it
            await eventually(lambda: len(out.log) == 1)
    assert seen == [f"GET /x HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n".encode()]
    (line,) = out.log
    assert (line.destination, line.allowed, line.address) == (str(to), True, "127.0.0.1")
    assert line.sent_bytes == len(seen[0])


async def test_a_tunnel_carries_and_counts_data_in_both_directions() -> None:
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer, status = await tunnel(out.proxy, to)
            assert status == b"HTTP/1.1 200 Connection established"
            writer.write(b"\x16\x03\x01 not http at all")
            writer.write_eof()
            assert await reader.read() == b"\x16\x03\x01 not http at all|end"
            writer.close()
            await eventually(lambda: len(out.log) == 1)
    assert out.log == (
        Connection(str(to), allowed=True, reason="ended", address="127.0.0.1", sent_bytes=19, received_bytes=23),
    )


async def test_bytes_sent_along_with_the_connect_are_not_lost() -> None:
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.proxy)
            writer.write(f"CONNECT {to} HTTP/1.1\r\n\r\nearly".encode())
            writer.write_eof()
            assert (await reader.read()).endswith(b"\r\n\r\nearly|end")
            writer.close()


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT evil.test:443",
        "CONNECT api.test:22",
        "CONNECT 127.0.0.1:{port}",
        "CONNECT [::1]:{port}",
        "CONNECT [::ffff:127.0.0.1]:{port}",
        "CONNECT 2130706433:{port}",
        "CONNECT localhost:{port}",
        "CONNECT 169.254.169.254:80",
        "CONNECT api.test.evil.test:{port}",
        "CONNECT *:{port}",
        "GET http://169.254.169.254/latest/meta-data/",
        "GET http://[fd00:ec2::254]/",
        "GET http://api.test/",
        "GET http://127.0.0.1:{port}/",
    ],
)
async def test_an_unlisted_destination_is_refused_and_recorded(request_line: str) -> None:
    async with serving(echo) as server:
        async with opened(api(server.port), names=local()) as out:
            line = request_line.format(port=server.port)
            answer = await ask(out.proxy, f"{line} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"not on the job's list of destinations (api.test:" in answer
        assert server.connections == 0
    (noted,) = out.log
    assert not noted.allowed
    assert noted.address == ""
    assert noted.reason == "not on the job's list of destinations"


async def test_a_listed_name_matches_in_every_spelling() -> None:
    async with serving(echo) as server, opened(api(server.port), names=local()) as out:
        _, writer, status = await tunnel(out.proxy, f"API.Test.:{server.port}")
        writer.close()
    assert b"200" in status


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["0.0.0.0"],
        ["169.254.169.254"],
        ["fd00::1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
    ],
)
@pytest.mark.parametrize("way", ["connect", "forward", "direct"])
async def test_a_listed_name_that_resolves_to_a_private_address_is_refused(way: str, answers: list[str]) -> None:
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=Names({"api.test": [answers]}), rules=EgressRules()) as out:
            if way == "direct":
                with pytest.raises(ConnectionResetError):
                    await ask(out.direct[to], b"hello")
            else:
                line = f"CONNECT {to}" if way == "connect" else f"GET http://{to}/"
                answer = await ask(out.proxy, f"{line} HTTP/1.1\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert b"api.test is at" in answer
        assert server.connections == 0
    (noted,) = out.log
    assert not noted.allowed
    assert noted.reason.startswith("api.test is at ")


async def test_rebinding_between_two_connections_does_not_reach_the_private_address() -> None:
    """Make only the first lookup harmless: each connection uses only the addresses that were checked for it."""
    names = Names({"api.test": [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1"]]})
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=names) as out:
            statuses = []
            for _ in range(3):
                _, writer, status = await tunnel(out.proxy, to)
                statuses.append(status[:12])
                writer.close()
        assert statuses == [b"HTTP/1.1 200", b"HTTP/1.1 403", b"HTTP/1.1 200"]
        assert server.connections == 2
    assert names.asked == ["api.test"] * 3


async def test_a_redirect_to_a_private_address_is_a_new_request_and_is_refused() -> None:
    async with serving(http(status="302 Found", fields="Location: http://127.0.0.1:1/\r\n", body=b"")) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            first = await asyncio.wait_for(_first(out.proxy, f"GET http://{to}/ HTTP/1.1\r\n\r\n"), DEADLINE_S)
            assert b"Location: http://127.0.0.1:1/" in first
            assert (await ask(out.proxy, b"GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")
    assert [(line.destination, line.allowed) for line in sorted(out.log, key=lambda c: c.allowed)] == [
        ("127.0.0.1:1", False),
        (str(to), True),
    ]


async def _first(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head


async def test_a_second_request_on_a_connection_goes_to_the_same_host() -> None:
    """Ignore `Connection: close` as a client: the connection still cannot reach another host."""
    async with serving(echo) as server, serving(echo) as other:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.proxy)
            writer.write(f"GET http://{to}/1 HTTP/1.1\r\n\r\n".encode())
            writer.write(f"GET http://127.0.0.1:{other.port}/2 HTTP/1.1\r\n\r\n".encode())
            writer.write_eof()
            with pytest.raises(ConnectionResetError):  # an echo is not an HTTP response
                await reader.read()
            writer.close()
        assert (server.connections, other.connections) == (1, 0)


async def test_a_half_closed_connection_continues_in_the_other_direction() -> None:
    async def after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = await reader.read()
        writer.write(b"got %d" % len(got))
        await writer.drain()

    async with serving(after_the_end) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            writer.write(b"x" * 100_000)
            writer.write_eof()
            assert await reader.read() == b"got 100000"
            writer.close()


async def test_a_connection_that_breaks_off_does_not_look_complete() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half of")
        await writer.drain()
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with serving(breaks) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            assert await reader.readexactly(7) == b"half of"
            writer.write(b"x")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
    assert out.log[0].reason.startswith("the connection broke")


async def test_a_client_that_never_finishes_its_request_is_refused() -> None:
    async with opened(api(1), names=local(), rules=EgressRules(head_s=0.05)) as out:
        answer = await ask(out.proxy, b"GET http://api.test/ HTTP/1.1\r\nA: ")
    assert answer.startswith(b"HTTP/1.1 400 No complete request head arrived")


async def test_a_head_without_an_end_is_refused_before_it_is_large() -> None:
    async with opened(api(1), names=local()) as out:
        answer = await ask(out.proxy, b"GET http://api.test/ HTTP/1.1\r\nA: " + b"x" * 20_000)
    assert answer.startswith(b"HTTP/1.1 400 The head of the request is over")


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (EgressRules(allow_private=HERE, idle_s=0.05), "nothing was sent for 0.05 s"),
        (EgressRules(allow_private=HERE, total_s=0.05), "the connection took too long"),
    ],
)
async def test_a_connection_ends_when_its_time_is_over(rules: EgressRules, reason: str) -> None:
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local(), rules=rules) as out:
            with pytest.raises(ConnectionResetError):
                await ask(out.direct[to], b"hello")
    assert [line.reason for line in out.log] == [reason]


async def test_a_busy_connection_is_not_idle() -> None:
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local(), rules=EgressRules(allow_private=HERE, idle_s=0.5)) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            start = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - start < 1.2:
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
                await asyncio.sleep(0.02)
            writer.write_eof()
            assert await reader.read() == b"|end"
            writer.close()
    assert [line.reason for line in out.log] == ["ended"]


async def test_a_reader_that_stops_reading_stops_the_sender_and_loses_nothing() -> None:
    size, block = 64 << 20, b"0123456789abcdef" * 4096
    written = 0

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while written < size:
            writer.write(block)
            await writer.drain()
            written += len(block)

    async with serving(send) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            with socket.create_connection(("127.0.0.1", out.direct[to])) as client:
                client.setblocking(False)
                tracemalloc.start()
                steady, before = 0, -1
                async with asyncio.timeout(DEADLINE_S):
                    while steady < 30:
                        await asyncio.sleep(0.01)
                        steady = steady + 1 if written == before else 0
                        before = written
                assert 0 < written < size // 2
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < 2 << 20
                digest, loop = hashlib.sha256(), asyncio.get_running_loop()
                async with asyncio.timeout(60):
                    while data := await loop.sock_recv(client, 1 << 20):
                        digest.update(data)
    assert digest.digest() == hashlib.sha256(block * (size // len(block))).digest()
    assert out.log[0].received_bytes == size


async def test_a_server_that_stops_reading_stops_the_sender_and_loses_nothing() -> None:
    size, block = 64 << 20, b"0123456789abcdef" * 4096
    may_read, digest, got = asyncio.Event(), hashlib.sha256(), 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        await may_read.wait()
        while data := await reader.read(1 << 20):
            digest.update(data)
            got += len(data)

    async with serving(take) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            written = 0
            with socket.create_connection(("127.0.0.1", out.direct[to])) as client:
                client.setblocking(False)
                tracemalloc.start()
                steady = 0
                async with asyncio.timeout(DEADLINE_S):
                    while steady < 30:
                        try:
                            written += client.send(block[written % len(block) :])
                            steady = 0
                        except BlockingIOError:
                            steady += 1
                            await asyncio.sleep(0.01)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert written < size // 2
                assert peak < 2 << 20
                may_read.set()
                loop = asyncio.get_running_loop()
                async with asyncio.timeout(60):
                    while written < size:
                        chunk = block[written % len(block) :]
                        await loop.sock_sendall(client, chunk)
                        written += len(chunk)
                client.shutdown(socket.SHUT_WR)
                await eventually(lambda: got == written)
    assert digest.digest() == hashlib.sha256(block * (written // len(block))).digest()


async def test_a_large_upload_arrives_completely() -> None:
    got = hashlib.sha256()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            got.update(data)
        writer.write(b"done")
        await writer.drain()

    body = b"0123456789abcdef" * (2 << 20)
    async with serving(take) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            writer.write(body)
            writer.write_eof()
            assert await reader.read() == b"done"
            writer.close()
    assert got.digest() == hashlib.sha256(body).digest()
    assert out.log[0].sent_bytes == len(body)


async def test_concurrent_connections_are_limited_and_slots_are_reused() -> None:
    rules = EgressRules(allow_private=HERE, connections_at_once=4)
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local(), rules=rules) as out:
            held = [await asyncio.open_connection("127.0.0.1", out.direct[to]) for _ in range(4)]
            await eventually(lambda: server.connections == 4)
            with pytest.raises(ConnectionResetError):
                await ask(out.direct[to], b"one too many")
            assert out.log == (Connection(str(to), allowed=False, reason="more than 4 connections at once"),)
            for _, writer in held:
                writer.close()
            await eventually(lambda: len(out.log) == 5)
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            writer.write_eof()
            assert await reader.read() == b"|end"
            writer.close()


async def test_all_connections_of_a_job_are_limited_and_the_log_is_bounded() -> None:
    rules = EgressRules(allow_private=HERE, connections_in_all=3, kept=5)
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local(), rules=rules) as out:
            for turn in range(10):
                if turn < 3:
                    reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
                    writer.write_eof()
                    assert await reader.read() == b"|end"
                    writer.close()
                else:
                    with pytest.raises(ConnectionResetError):
                        await ask(out.direct[to], b"")
        assert server.connections == 3
    assert len(out.log) == 6
    assert out.log[-1].reason == "connections not listed: 5"
    assert len(out.heard) == 10


async def test_a_hundred_connections_are_carried_at_once() -> None:
    rules = EgressRules(allow_private=HERE, connections_at_once=200)
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local(), rules=rules) as out:
            held = [await asyncio.open_connection("127.0.0.1", out.direct[to]) for _ in range(100)]
            for number, (_, writer) in enumerate(held):
                writer.write(b"%d" % number)
                writer.write_eof()
            answers = [await reader.read() for reader, _ in held]
            for _, writer in held:
                writer.close()
    assert answers == [b"%d|end" % number for number in range(100)]
    assert len(out.log) == 100


async def test_a_destination_that_refuses_is_reported_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        to = api(closed.getsockname()[1])
    async with opened(to, names=local()) as out:
        assert (await ask(out.proxy, f"CONNECT {to} HTTP/1.1\r\n\r\n".encode())).startswith(b"HTTP/1.1 502 ")
    (noted,) = out.log
    assert (noted.allowed, noted.address) == (True, "127.0.0.1")
    assert noted.reason.startswith("could not connect")


async def test_the_next_pinned_address_is_tried_when_one_refuses() -> None:
    async with serving(echo) as server:
        to = api(server.port)
        names = Names({"api.test": [["127.0.0.9", "127.0.0.1"]]})
        async with opened(to, names=names) as out:
            reader, writer = await asyncio.open_connection("127.0.0.1", out.direct[to])
            writer.write_eof()
            assert await reader.read() == b"|end"
            writer.close()
    assert out.log[0].address == "127.0.0.1"


@pytest.mark.parametrize("flush", [True, False])
async def test_closing_ends_everything_and_leaks_no_socket(flush: bool) -> None:
    async with serving(echo) as server:
        gc.collect()
        before, tasks = open_sockets(), asyncio.all_tasks()
        to = api(server.port)
        clients = []
        async with opened(to, names=local()) as out:
            for _ in range(5):
                client = socket.create_connection(("127.0.0.1", out.direct[to]))
                client.sendall(b"hello")
                clients.append(client)
            # These clients send no request to the proxy.
            clients += [socket.create_connection(("127.0.0.1", out.proxy)) for _ in range(3)]
            await eventually(lambda: server.connections == 5)
            await out.gateway.aclose(flush=flush)
        for client in clients:
            client.close()
        await eventually(lambda: len(server.ended) == 5 and all(ended.is_set() for ended in server.ended))
        await eventually(lambda: open_sockets() == before)
        assert asyncio.all_tasks() - tasks == set()
    assert {line.reason for line in out.log} == {"the job ended"}


async def test_a_connection_accepted_at_the_last_moment_is_closed_too() -> None:
    """Cancel the task of a connection before its first step, so that the task itself cannot close the socket."""
    async with serving(echo) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            with socket.create_connection(("127.0.0.1", out.direct[to])) as client:
                (listener,) = [end for end, leads in out.gateway._listeners.items() if leads == to]
                out.gateway._accept(listener)
                (held,) = [exchange._inside for exchange in out.gateway._running.values()]
                await out.gateway.aclose(flush=False)
                assert held.fileno() == -1
                client.settimeout(DEADLINE_S)
                assert client.recv(1) == b""
        assert server.connections == 0


async def test_closing_while_being_cancelled_still_ends_everything() -> None:
    async with serving(echo) as server:
        before = open_sockets()
        to = api(server.port)
        async with opened(to, names=local()) as out:
            client = socket.create_connection(("127.0.0.1", out.direct[to]))
            await eventually(lambda: server.connections == 1)
            closing = asyncio.create_task(out.gateway.aclose())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            client.close()
        await eventually(lambda: open_sockets() == before)


async def test_data_sent_before_the_end_still_arrives() -> None:
    """Send, close and end within a millisecond, as a job may do."""
    got = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())

    body = b"x" * 200_000
    async with serving(take) as server:
        to = api(server.port)
        async with opened(to, names=local()) as out:
            with socket.create_connection(("127.0.0.1", out.direct[to])) as client:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_sendall(client, body)
            await asyncio.sleep(0)  # the gateway has at most accepted the connection by now
            await eventually(lambda: server.connections == 1)
        await eventually(lambda: len(server.ended) == 1 and server.ended[0].is_set())
    assert len(got) == len(body)


async def test_too_few_sockets_are_refused_and_none_is_kept() -> None:
    before = open_sockets()
    plan = EgressPlan((Outlet("127.0.0.1", 1, None), Outlet("127.0.0.1", 2, api(1))), "")
    gateway = Gateway(plan, EgressRules(), local())
    with pytest.raises(SandboxError, match="sent 1 sockets"):
        gateway.open([socket.create_server(("127.0.0.1", 0)).detach()])
    await gateway.aclose()
    assert open_sockets() == before


async def test_a_listener_that_raises_breaks_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Connection) -> None:
        raise RuntimeError("the listener's own")

    async with serving(echo) as server:
        to = api(server.port)
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        gateway = Gateway(
            EgressPlan((Outlet("127.0.0.1", port, to),), ""), EgressRules(allow_private=HERE), local(), fails
        )
        gateway.open([listener.detach()])
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write_eof()
            assert await reader.read() == b"|end"
            writer.close()
        await gateway.aclose()
    assert len(gateway.connections) == 2
    assert "the listener's own" in caplog.text
