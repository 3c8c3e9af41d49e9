"""An overloaded server refuses calls at once, with an accurate ``Retry-After``."""

import asyncio
import socket
from http import HTTPStatus
from pathlib import Path

import pytest

from engine.interfaces.http.pace import Pace
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.tokens import Caller
from engine.interfaces.http.traffic import Traffic
from tests.interfaces.http.servers import DEADLINE_S, Server, running
from tests.sandbox.virtual_time import in_virtual_time, now

pytestmark = pytest.mark.spec("FACE-6")
ME = Caller("me", "me")


async def test_a_call_without_a_free_box_returns_503_and_retry_after(server: Server) -> None:
    async with server.client(ME) as client:
        for path, body in (("/api/call", {"name": "no_box"}), ("/execute", {"tool_name": "knackbox.no_box"})):
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "8")
            assert answer.headers["content-type"] == "application/problem+json"
            assert "Nothing was run" in answer.json()["detail"]


def test_a_connection_beyond_the_limit_returns_503_and_retry_after(tmp_path: Path) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(tmp_path, "[http]\nconnections = 2\n") as server:

        def ask() -> tuple[socket.socket, bytes]:
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
            connection.sendall(request)
            return connection, connection.recv(65536)

        asked = [ask() for _ in range(3)]
        for connection, _ in asked:
            connection.close()
    assert [response.split(b" ")[1] for _, response in asked] == [b"200", b"200", b"503"]
    assert b"retry-after: 5" in asked[2][1].lower()


@pytest.mark.parametrize("agents", [200, 10])
def test_calls_that_would_wait_too_long_are_refused_and_admitted_after_retry_after(agents: int) -> None:
    waits, refused, again, statuses = list[float](), [0], [0], set[HTTPStatus]()

    async def client(traffic: Traffic, busy: asyncio.Semaphore, caller: Caller) -> None:
        retrying = False
        while now() < 300:
            asked = now()
            try:
                with traffic.call(caller):
                    async with busy:
                        await asyncio.sleep(0.1)
                    waits.append(now() - asked)
                    retrying = False
            except HttpProblem as problem:
                statuses.add(problem.status)
                (again if retrying else refused)[0] += asked > 60
                retrying = True
                await asyncio.sleep(int(problem.headers["Retry-After"]))

    async def main() -> None:
        traffic, busy = Traffic(), asyncio.Semaphore(1)
        callers = [Caller(f"{number % agents}", f"{number % agents}") for number in range(200)]
        await asyncio.gather(*(client(traffic, busy, caller) for caller in callers))

    in_virtual_time(main)
    assert len(waits) >= 10 * 300 * 0.95  # it was never idle
    assert max(waits[500:]) <= 15
    assert refused[0] > 50
    assert statuses == {HTTPStatus.SERVICE_UNAVAILABLE}
    assert again[0] <= refused[0] * (
        0.1 if agents == 200 else 1
    )  # clients of one agent may take each other's reserved slots


def test_a_refused_caller_mostly_finds_a_slot_after_retry_after() -> None:
    refused, again = [0], [0]

    async def client(pace: Pace, name: int) -> None:
        retrying = False
        while now() < 100:
            if pace.admits(name, now()):
                since = now()
                pace.take(since)
                await asyncio.sleep(0.5)
                pace.free(since, now())
                retrying = False
                continue
            (again if retrying else refused)[0] += 1
            retrying = True
            await asyncio.sleep(pace.retry_after_s(name, now()))

    async def main() -> None:
        pace = Pace(8)
        await asyncio.gather(*(client(pace, name) for name in range(40)))

    in_virtual_time(main)
    assert refused[0] > 100
    assert again[0] <= refused[0] * 0.2
