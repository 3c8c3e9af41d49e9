"""Calls over HTTP: their results, their news while they run, their end when nobody listens any more."""

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
from engine.interfaces.http.calls import RunningCalls
from engine.interfaces.http.tokens import Caller
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.interfaces.http.servers import DEADLINE_S, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("caller", "cy")
OTHER = Caller("other", "olga")
MINE_TOO = Caller("console", "cy")
BUSY = Caller("busy", "bea")


async def until(condition: Any) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def events(stream: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in stream.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_a_call_answers_with_the_whole_result(server: Server) -> None:
    async with server.client(ME) as client:
        answer = (await client.post("/api/call", json={"name": "echo", "arguments": {"value": [1, "ä"]}})).json()
        assert answer["success"]
        assert answer["output"] == [1, "ä"]
        assert answer["audit"]["tool"] == "echo"


@pytest.mark.spec("FACE-15")
@pytest.mark.parametrize(
    ("body", "status", "reason", "said"),
    [
        ({"name": "ecko", "arguments": {}}, 404, "unknown_tool", "Nearest: echo"),
        ({"name": "echo", "arguments": {"no": 1}}, 422, "invalid_arguments", "`value` is missing"),
    ],
)
async def test_a_wrong_name_or_arguments_that_do_not_fit_are_problems_and_the_result_is_in_them(
    server: Server, body: dict[str, Any], status: int, reason: str, said: str
) -> None:
    async with server.client(ME) as client:
        answer = await client.post("/api/call", json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (problem["status"], problem["type"]) == (status, "about:blank")
    assert said in problem["detail"]
    assert (problem["success"], problem["failure"]["reason"]) == (False, reason)
    assert problem["failure"]["failure_class"] == "DIAGNOSTIC"


async def test_the_id_of_a_client_never_becomes_the_one_on_record(server: Server) -> None:
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


async def test_news_come_while_a_call_runs_and_its_result_is_the_last(server: Server) -> None:
    told = await followed(server, "steps", count=3)
    assert [name for name, _ in told] == ["call", "progress", "progress", "progress", "result"]
    assert told[1][1] == {"message": "step 0", "fraction": 0.0}
    assert told[-1][1]["output"] == 3
    assert told[-1][1]["call_id"] == told[0][1]["call_id"]


async def test_a_tool_that_tells_much_at_once_is_not_held_up_and_what_was_missed_is_counted(server: Server) -> None:
    told = await followed(server, "shout", pieces=2000)
    assert told[-1][0] == "result"
    assert told[-1][1]["output"] == 2000
    missed = sum(data["events"] for name, data in told if name == "missed")
    assert missed + sum(name == "output" for name, _ in told) == 2000
    assert missed > 0
    assert [data["text"] for name, data in told if name == "output"][-1] == "1999\r\n\r\nevent: result"


async def test_a_stream_has_no_comments_but_those_of_quiet_times(server: Server) -> None:
    body = {"name": "steps", "arguments": {"count": 3}}
    async with server.client(ME) as client:
        for _ in range(5):
            said = (await client.post("/api/call/stream", json=body)).text
            assert [line for line in said.split("\n") if line.startswith(":")] == []
            assert said.count("event: ") == 5


async def test_a_client_is_told_that_a_quiet_call_still_runs(tmp_path: Path) -> None:
    heard = asyncio.Event()

    @tool(timeout_s=DEADLINE_S)
    async def quiet() -> str:
        """Say nothing until it is enough."""
        await heard.wait()
        return "done"

    async with (
        Engine.open(tmp_path, sources=[StaticSource("tests", [quiet])], packs=False, environ={}) as engine,
        aclosing(RunningCalls(engine, 3, lambda _: True)) as calls,
    ):
        running = calls.start(ME, "quiet", {}, Turn(), followed=True)
        told = []
        async for pieces in running.event_batches(0.01):
            told.append(pieces)
            if len(told) == 3:
                heard.set()
        assert not any(told)
        assert len(told) >= 3
        assert running.taken().output == "done"


async def test_what_a_tool_reports_from_a_thread_of_its_own_comes_while_it_runs(server: Server) -> None:
    body = {"name": "from_a_thread", "arguments": {"go": "heard-it"}}
    async with server.client(ME) as client, client.stream("POST", "/api/call/stream", json=body) as stream:
        async with asyncio.timeout(DEADLINE_S):
            async for name, data in events(stream):
                if name == "progress":
                    assert data == {"message": "in a thread", "fraction": 0.5}
                    (server.home.workspace / "heard-it").touch()  # it ends only because it was heard
                elif name == "result":
                    assert data["output"] == "heard"


@pytest.mark.spec("CALL-10")
async def test_the_audit_shows_how_a_call_ended_as_soon_as_it_has(server: Server) -> None:
    async with server.client(Caller("auditor", "ada", "admin")) as client:
        for _ in range(5):
            result = (await client.post("/api/call", json={"name": "erase"})).json()
            rows = (await client.get("/api/audit", params={"limit": 10})).json()["calls"]
            assert [row["end"] for row in rows if row["call_id"] == result["audit"]["call_id"]] == ["ok"]


async def test_a_stream_that_is_left_cancels_its_call(server: Server) -> None:
    async with server.client(ME) as client:
        body = {"name": "linger", "arguments": {"note": "left"}}
        async with client.stream("POST", "/api/call/stream", json=body) as stream:
            told = events(stream)
            while (await anext(told))[0] != "progress":
                pass
            assert server.note("left") == "begun"
        await until(lambda: server.note("left") == "cancelled")


async def test_a_stream_that_is_cut_before_its_first_event_cancels_its_call(server: Server) -> None:
    body = json.dumps({"name": "linger", "arguments": {"note": "cut"}}).encode()
    head = f"POST /api/call/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
            one.sendall(head.encode() + body)
    async with server.client(ME) as client:
        async with asyncio.timeout(DEADLINE_S):  # else the token has three calls that never end
            while (await client.post("/api/call", json={"name": "whoami"})).status_code == 429:
                await asyncio.sleep(0.01)
        await until(lambda: server.note("cut") in ("", "cancelled"))


async def test_a_client_that_goes_away_cancels_its_call(server: Server) -> None:
    async with server.client(ME) as client:
        body = {"name": "linger", "arguments": {"note": "gone"}}
        waiting = asyncio.ensure_future(client.post("/api/call", json=body))
        await until(lambda: server.note("gone") == "begun")
        waiting.cancel()
        await until(lambda: server.note("gone") == "cancelled")


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
async def test_nothing_sent_ahead_hides_that_a_client_goes_away(
    server: Server, path: str, header: str, ahead: bytes
) -> None:
    note = f"ahead-{secrets.token_hex(4)}"
    body = json.dumps({"name": "linger", "arguments": {"note": note}}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n{header}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(head.encode() + body)
        await until(lambda: server.note(note) == "begun")
        one.sendall(ahead)
    await until(lambda: server.note(note) == "cancelled")


async def test_a_request_sent_ahead_costs_the_connection_at_once(server: Server) -> None:
    body = json.dumps({"name": "linger", "arguments": {"note": "at-once"}}).encode()
    head = f"POST /api/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token(ME)}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode() + body)
    await until(lambda: server.note("at-once") == "begun")
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.read() == b""
    await until(lambda: server.note("at-once") == "cancelled")
    writer.close()


@pytest.mark.parametrize("anew", [False, True])
async def test_removing_a_token_cancels_its_calls_and_no_others(server: Server, anew: bool) -> None:
    removed, note = Caller(f"removed-{anew}", "cy"), f"removed-{anew}"
    async with server.client(removed) as client, server.client(ME) as other:
        ending, staying = (
            asyncio.ensure_future(each.post("/api/call", json={"name": "linger", "arguments": {"note": name}, **more}))
            for each, name, more in ((client, note, {}), (other, f"{note}-other", {"call_id": note}))
        )
        await until(lambda: server.note(note) == server.note(f"{note}-other") == "begun")
        assert await asyncio.to_thread(server.tokens.remove, removed.name)
        if anew:
            await asyncio.to_thread(server.tokens.add, removed)
        assert (await ending).json()["audit"]["end"] == "killed"
        assert server.note(note) == "cancelled"
        assert server.note(f"{note}-other") == "begun"
        assert (await other.delete(f"/api/calls/{note}")).status_code == 204
        await staying


async def test_one_cancels_ones_own_call_and_nobody_elses(server: Server) -> None:
    async with server.client(ME) as mine, server.client(OTHER) as other, server.client(MINE_TOO) as console:
        body = {"name": "linger", "arguments": {"note": "own"}, "call_id": "long"}
        waiting = asyncio.ensure_future(mine.post("/api/call", json=body))
        await until(lambda: server.note("own") == "begun")
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


async def test_the_same_id_of_two_users_is_two_calls(server: Server) -> None:
    async with server.client(ME) as mine, server.client(OTHER) as other:
        waiting = [
            asyncio.ensure_future(
                client.post("/api/call", json={"name": "linger", "arguments": {"note": note}, "call_id": "same"})
            )
            for client, note in ((mine, "same-mine"), (other, "same-other"))
        ]
        await until(lambda: server.note("same-mine") == server.note("same-other") == "begun")
        assert (await other.delete("/api/calls/same")).status_code == 204
        await until(lambda: server.note("same-other") == "cancelled")
        assert server.note("same-mine") == "begun"
        assert (await mine.delete("/api/calls/same")).status_code == 204
        assert [each.json()["audit"]["end"] for each in await asyncio.gather(*waiting)] == ["killed", "killed"]


async def test_a_token_has_so_many_calls_at_once_and_takes_none_of_anothers(server: Server) -> None:
    async with server.client(BUSY) as client, server.client(ME) as other:
        waiting = [
            asyncio.ensure_future(
                client.post("/api/call", json={"name": "linger", "arguments": {"note": f"busy{n}"}, "call_id": f"b{n}"})
            )
            for n in range(3)
        ]
        await until(lambda: all(server.note(f"busy{n}") == "begun" for n in range(3)))
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
async def test_the_tools_of_a_turn_come_in_any_providers_format(server: Server, form: str) -> None:
    async with server.client(ME) as client:
        answer = (await client.get("/api/tools", params={"format": form})).json()
        assert answer["format"] == form
        assert "whoami" in json.dumps(answer["tools"])
        again = (await client.get("/api/tools", params={"format": form})).json()
        assert json.dumps(again) == json.dumps(answer)


async def test_a_tool_is_told_of_by_its_name(server: Server) -> None:
    async with server.client(ME) as client:
        told = (await client.get("/api/tools/pay")).json()
        assert told["annotations"]["requires_confirmation"]
        assert told["parameters"]["required"] == ["amount"]
        found = await client.get("/api/tools", params={"use_tool_search_flow": True, "format": "openai"})
        assert [each["function"]["name"] for each in found.json()["tools"]] == [
            "describe_tool",
            "execute_tool",
            "search_tools",
        ]


@pytest.mark.spec("MOD-5")
async def test_the_module_protocol_is_spoken_with_its_own_texts(server: Server) -> None:
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
