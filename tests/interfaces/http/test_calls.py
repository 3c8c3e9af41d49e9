"""Calls over HTTP: their results, their events while they run, and their cancellation."""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine import Engine
from engine.contract.turn import Turn
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import Caller
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.eventually import eventually
from tests.interfaces.http.servers import DEADLINE_S, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("caller", "cy")
OTHER = Caller("other", "olga")
MINE_TOO = Caller("console", "cy")
BUSY = Caller("busy", "bea")


async def admitted(client: httpx.AsyncClient) -> bool:
    return (await client.post("/api/call", json={"name": "whoami"})).status_code != 429


async def events(stream: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in stream.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_a_call_returns_the_complete_result(server: Server) -> None:
    async with server.client(ME) as client:
        answer = (await client.post("/api/call", json={"name": "echo", "arguments": {"value": [1, "ä"]}})).json()
        assert answer["success"]
        assert answer["output"] == [1, "ä"]
        assert answer["audit"]["tool"] == "echo"


@pytest.mark.spec("FACE-15")
@pytest.mark.parametrize(
    ("body", "status", "reason", "detail"),
    [
        ({"name": "ecko", "arguments": {}}, 404, "unknown_tool", "Nearest: echo"),
        ({"name": "echo", "arguments": {"no": 1}}, 422, "invalid_arguments", "`value` is missing"),
    ],
)
async def test_an_unknown_tool_or_invalid_arguments_return_a_problem_with_the_result(
    server: Server, body: dict[str, Any], status: int, reason: str, detail: str
) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (problem["status"], problem["type"]) == (status, "about:blank")
    assert detail in problem["detail"]
    assert (problem["success"], problem["failure"]["reason"]) == (False, reason)
    assert problem["failure"]["failure_class"] == "DIAGNOSTIC"


async def test_the_call_id_of_a_client_is_never_the_recorded_id(server: Server) -> None:
    async with server.client(ME) as client:
        first = (await client.post("/api/call", json={"name": "whoami", "call_id": "mine"})).json()
        second = (await client.post("/api/call", json={"name": "whoami", "call_id": "mine"})).json()
    assert first["call_id"] == second["call_id"] == "mine"
    assert first["audit"]["call_id"] != second["audit"]["call_id"]
    assert "mine" not in (first["audit"]["call_id"], second["audit"]["call_id"])


async def followed(server: Server, name: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    body = {"name": name, "arguments": arguments}
    async with server.client(ME) as client, client.stream("POST", "/api/call/stream", json=body) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        return [each async for each in events(stream)]


async def test_events_arrive_while_a_call_runs_and_the_result_is_last(server: Server) -> None:
    received = await followed(server, "steps", count=3)
    assert [name for name, _ in received] == ["call", "progress", "progress", "progress", "result"]
    assert received[1][1] == {"message": "step 0", "fraction": 0.0}
    assert received[-1][1]["output"] == 3
    assert received[-1][1]["call_id"] == received[0][1]["call_id"]


async def test_a_tool_with_many_events_is_not_blocked_and_missed_events_are_counted(server: Server) -> None:
    received = await followed(server, "shout", pieces=2000)
    assert received[-1][0] == "result"
    assert received[-1][1]["output"] == 2000
    missed = sum(data["events"] for name, data in received if name == "missed")
    assert missed + sum(name == "output" for name, _ in received) == 2000
    assert missed > 0
    assert [data["text"] for name, data in received if name == "output"][-1] == "1999\r\n\r\nevent: result"


async def test_a_stream_has_comments_only_when_it_is_quiet(server: Server) -> None:
    body = {"name": "steps", "arguments": {"count": 3}}
    async with server.client(ME) as client:
        for _ in range(5):
            text = (await client.post("/api/call/stream", json=body)).text
            assert [line for line in text.split("\n") if line.startswith(":")] == []
            assert text.count("event: ") == 5


async def test_a_quiet_call_yields_empty_batches(tmp_path: Path) -> None:
    enough = asyncio.Event()

    @tool(timeout_s=DEADLINE_S)
    async def quiet() -> str:
        """Report nothing until the event is set."""
        await enough.wait()
        return "done"

    async with (
        Engine.open(tmp_path, sources=[StaticSource("tests", [quiet])], packs=False, environ={}) as engine,
        aclosing(RunningCalls(engine, 3, lambda _: True)) as calls,
    ):
        running = calls.start(ME, "quiet", {}, Turn(), followed=True)
        batches = []
        async for pieces in running.event_batches(0.01):
            batches.append(pieces)
            if len(batches) == 3:
                enough.set()
        assert not any(batches)
        assert len(batches) >= 3
        assert running.finished_result().output == "done"


async def test_progress_reported_from_a_thread_arrives_while_the_tool_runs(server: Server) -> None:
    body = {"name": "from_a_thread", "arguments": {"go": "progress-seen"}}
    async with server.client(ME) as client, client.stream("POST", "/api/call/stream", json=body) as stream:
        async with asyncio.timeout(DEADLINE_S):
            async for name, data in events(stream):
                if name == "progress":
                    assert data == {"message": "in a thread", "fraction": 0.5}
                    (server.home.workspace / "progress-seen").touch()  # the tool ends only because its progress arrived
                elif name == "result":
                    assert data["output"] == "done"


@pytest.mark.spec("CALL-10")
async def test_the_audit_shows_the_end_of_a_call_at_once(server: Server) -> None:
    async with server.client(Caller("auditor", "ada", "admin")) as client:
        for _ in range(5):
            result = (await client.post("/api/call", json={"name": "erase"})).json()
            rows = (await client.get("/api/audit", params={"limit": 10})).json()["calls"]
            assert [row["end"] for row in rows if row["call_id"] == result["audit"]["call_id"]] == ["ok"]


async def test_closing_a_stream_cancels_its_call(server: Server) -> None:
    async with server.client(ME) as client:
        body = {"name": "linger", "arguments": {"note": "left"}}
        async with client.stream("POST", "/api/call/stream", json=body) as stream:
            received = events(stream)
            while (await anext(received))[0] != "progress":
                pass
            assert server.note("left") == "begun"
        await eventually(lambda: server.note("left") == "cancelled")


async def test_closing_a_stream_before_its_first_event_cancels_its_call(server: Server) -> None:
    body = json.dumps({"name": "linger", "arguments": {"note": "cut"}}).encode()
    head = f"POST /api/call/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
            one.sendall(head.encode() + body)
    async with server.client(ME) as client:
        await eventually(lambda: admitted(client))  # otherwise the token would keep its three calls
        await eventually(lambda: server.note("cut") in ("", "cancelled"))


async def test_a_client_that_disconnects_cancels_its_call(server: Server) -> None:
    async with server.client(ME) as client:
        body = {"name": "linger", "arguments": {"note": "gone"}}
        waiting = asyncio.ensure_future(client.post("/api/call", json=body))
        await eventually(lambda: server.note("gone") == "begun")
        waiting.cancel()
        await eventually(lambda: server.note("gone") == "cancelled")


@pytest.mark.parametrize("path", ["/api/call", "/api/call/stream"])
@pytest.mark.parametrize(
    ("header", "ahead"),
    [
        ("", b""),
        ("", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("", b"x"),
        ("Connection: close\r\n", b"x"),
        ("Connection: Upgrade\r\nUpgrade: h2c\r\n", b""),
        ("Connection: Upgrade\r\nUpgrade: h2c\r\n", b"x"),
    ],
)
async def test_a_disconnect_after_pipelined_data_is_noticed(
    server: Server, path: str, header: str, ahead: bytes
) -> None:
    note = f"ahead-{secrets.token_hex(4)}"
    body = json.dumps({"name": "linger", "arguments": {"note": note}}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n{header}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(head.encode() + body)
        await eventually(lambda: server.note(note) == "begun")
        one.sendall(ahead)
    await eventually(lambda: server.note(note) == "cancelled")


async def test_a_pipelined_request_closes_the_connection_at_once(server: Server) -> None:
    body = json.dumps({"name": "linger", "arguments": {"note": "at-once"}}).encode()
    head = f"POST /api/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode() + body)
    await eventually(lambda: server.note("at-once") == "begun")
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.read() == b""
    await eventually(lambda: server.note("at-once") == "cancelled")
    writer.close()


@pytest.mark.parametrize("recreated", [False, True])
async def test_removing_a_token_cancels_only_its_calls(server: Server, recreated: bool) -> None:
    removed, note = Caller(f"removed-{recreated}", "cy"), f"removed-{recreated}"
    async with server.client(removed) as client, server.client(ME) as other:
        ending, staying = (
            asyncio.ensure_future(each.post("/api/call", json={"name": "linger", "arguments": {"note": name}, **more}))
            for each, name, more in ((client, note, {}), (other, f"{note}-other", {"call_id": note}))
        )
        await eventually(lambda: server.note(note) == server.note(f"{note}-other") == "begun")
        assert await asyncio.to_thread(server.tokens.remove, removed.name)
        if recreated:
            await asyncio.to_thread(server.tokens.add, removed)
        assert (await ending).json()["audit"]["end"] == "killed"
        assert server.note(note) == "cancelled"
        assert server.note(f"{note}-other") == "begun"
        assert (await other.delete(f"/api/calls/{note}")).status_code == 204
        await staying


async def test_a_user_can_cancel_only_their_own_calls(server: Server) -> None:
    async with server.client(ME) as mine, server.client(OTHER) as other, server.client(MINE_TOO) as console:
        body = {"name": "linger", "arguments": {"note": "own"}, "call_id": "long"}
        waiting = asyncio.ensure_future(mine.post("/api/call", json=body))
        await eventually(lambda: server.note("own") == "begun")
        assert (await mine.post("/api/call", json=body)).status_code == 409
        for call_id in ("long", "none", "..%2flong"):
            assert (await other.delete(f"/api/calls/{call_id}")).status_code == 404
        assert server.note("own") == "begun"
        assert (await console.delete("/api/calls/long")).status_code == 204
        result = (await waiting).json()
        assert result["audit"]["end"] == "killed"
        assert not result["success"]
        assert server.note("own") == "cancelled"
        assert (await mine.delete("/api/calls/long")).status_code == 404


async def test_two_users_can_use_the_same_call_id(server: Server) -> None:
    async with server.client(ME) as mine, server.client(OTHER) as other:
        waiting = [
            asyncio.ensure_future(
                client.post("/api/call", json={"name": "linger", "arguments": {"note": note}, "call_id": "same"})
            )
            for client, note in ((mine, "same-mine"), (other, "same-other"))
        ]
        await eventually(lambda: server.note("same-mine") == server.note("same-other") == "begun")
        assert (await other.delete("/api/calls/same")).status_code == 204
        await eventually(lambda: server.note("same-other") == "cancelled")
        assert server.note("same-mine") == "begun"
        assert (await mine.delete("/api/calls/same")).status_code == 204
        assert [each.json()["audit"]["end"] for each in await asyncio.gather(*waiting)] == ["killed", "killed"]


async def test_the_limit_of_concurrent_calls_is_per_token(server: Server) -> None:
    async with server.client(BUSY) as client, server.client(ME) as other:
        waiting = [
            asyncio.ensure_future(
                client.post("/api/call", json={"name": "linger", "arguments": {"note": f"busy{n}"}, "call_id": f"b{n}"})
            )
            for n in range(3)
        ]
        await eventually(lambda: all(server.note(f"busy{n}") == "begun" for n in range(3)))
        refused = await client.post("/api/call", json={"name": "whoami"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.post("/execute", json={"tool_name": "knackbox.whoami"})).status_code == 429
        assert (await client.post("/api/call/stream", json={"name": "whoami"})).status_code == 429
        assert (await other.post("/api/call", json={"name": "whoami"})).status_code == 200
        for n in range(3):
            assert (await client.delete(f"/api/calls/b{n}")).status_code == 204
        await asyncio.gather(*waiting)
        assert (await client.post("/api/call", json={"name": "whoami"})).status_code == 200


@pytest.mark.parametrize("form", ["openai", "openai-responses", "anthropic", "gemini", "mcp", "spec"])
async def test_tools_are_listed_in_every_provider_format(server: Server, form: str) -> None:
    async with server.client(ME) as client:
        answer = (await client.get("/api/tools", params={"format": form})).json()
        assert answer["format"] == form
        assert "whoami" in json.dumps(answer["tools"])
        again = (await client.get("/api/tools", params={"format": form})).json()
        assert json.dumps(again) == json.dumps(answer)


async def test_a_tool_is_described_by_its_name(server: Server) -> None:
    async with server.client(ME) as client:
        described = (await client.get("/api/tools/pay")).json()
        assert described["annotations"]["requires_confirmation"]
        assert described["parameters"]["required"] == ["amount"]
        found = await client.get("/api/tools", params={"use_tool_search_flow": True, "format": "openai"})
        assert [each["function"]["name"] for each in found.json()["tools"]] == [
            "describe_tool",
            "execute_tool",
            "search_tools",
        ]


@pytest.mark.spec("MOD-5")
async def test_the_module_protocol_has_its_own_error_texts(server: Server) -> None:
    async with server.client(ME) as client:

        async def execute(name: str, path: str = "/execute", **arguments: Any) -> dict[str, Any]:
            return (await client.post(path, json={"tool_name": name, "arguments": arguments})).json()

        assert await execute("knackbox.echo", value=1) == {
            "tool_name": "knackbox.echo",
            "success": True,
            "result": 1,
            "error": None,
        }
        for name in ("echo", "", ".echo", "knackbox."):
            text = f"Invalid tool name format: {name}. Expected 'module.tool_name'."
            assert (await execute(name))["error"] == text
        assert (await execute("other.echo.more"))["error"] == "Unknown module: other"
        assert "echo.more" in (await execute("knackbox.echo.more"))["error"]
        path = "/api/modules/knackbox/execute"
        assert (await execute("echo", path, value=2))["result"] == 2
        assert (await execute("knackbox.echo", path, value=3))["result"] == 3
        assert (await execute("echo", "/api/modules/other/execute"))["error"] == "Unknown module: other"
        manifest = (await client.get("/manifest")).json()
        assert manifest["module_name"] == "knackbox"
        pay = next(each for each in manifest["tools"] if each["name"] == "knackbox.pay")
        assert pay["parameters"]["properties"]["amount"]["type"] == "integer"
        assert pay["required_permission"] == "guest"
        modules = (await client.get("/api/modules")).json()["modules"]
        assert modules[0]["name"] == "knackbox"
        assert "pay" in modules[0]["tools"]
