"""MCP over streamable HTTP: the official client works, and nobody reaches the calls, files or streams of others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from engine.interfaces.http.tokens import Caller
from engine.registry.updates import REGISTRY_UPDATED
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records
from tests.eventually import eventually, eventually_sync
from tests.interfaces.http.servers import DEADLINE_S, PLAIN, Server, running

pytestmark = [pytest.mark.spec("FACE-2")]

MODES = ["legacy", "2026-07-28"]
AGENT = Caller("mcp-agent", "pat")
PERSON = Caller("mcp-person", "pat", approves=True)
STRANGER = Caller("mcp-stranger", "sam", approves=True)
ADMIN = Caller("mcp-admin", "ada", "admin", caps=frozenset({"keys"}))
VERSION = "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(server: Server, caller: Caller, mode: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.token(caller)}"}
    async with (
        asyncio.timeout(DEADLINE_S),
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=DEADLINE_S) as http,
        Client(
            streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode, cache=None, **options
        ) as client,
    ):
        yield client


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


def message(method: str, params: dict[str, Any] | None = None, number: int | None = 1) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": method,
        **({} if params is None else {"params": params}),
        **({} if number is None else {"id": number}),
    }


INITIALIZE = message(
    "initialize",
    {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
)


async def open_session(client: httpx.AsyncClient) -> dict[str, str]:
    """Open a session, and return the headers of its requests."""
    async with client.stream("POST", "/mcp", json=INITIALIZE, headers=ACCEPT) as answer:
        assert answer.status_code == 200
        headers = {**ACCEPT, "Mcp-Session-Id": answer.headers["mcp-session-id"], "Mcp-Protocol-Version": VERSION}
    sent = await client.post("/mcp", json=message("notifications/initialized", number=None), headers=headers)
    assert sent.status_code == 202
    return headers


async def events_of(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Yield the id and the message of each server-sent event."""
    event_id = ""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            yield event_id, json.loads(value) if value else None


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_calls_the_tools_of_its_token(server: Server, mode: str) -> None:
    async with connected(server, ADMIN, mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {"whoami", "echo", "admins_alone", "with_keys"} <= listed
        who = await client.call_tool("whoami", {})
        assert who.structured_content is not None
        assert (who.structured_content["user"], who.structured_content["permission"]) == ("ada", "admin")
        assert text(await client.call_tool("admins_alone", {})) == "done"
    async with connected(server, AGENT, mode) as client:
        assert "admins_alone" not in {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.call_tool("admins_alone", {})).is_error
        unknown = await client.call_tool("nothing_of_the_kind", {})
        assert unknown.is_error


@pytest.mark.parametrize("mode", MODES)
async def test_progress_arrives_in_order_before_the_result(server: Server, mode: str) -> None:
    seen: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    async with connected(server, AGENT, mode) as client:
        assert text(await client.call_tool("steps", {"count": 5}, progress_callback=report)) == "5"
    assert seen == [f"step {number}" for number in range(5)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_is_cancelled_in_the_engine(server: Server, mode: str) -> None:
    note = f"mcp-cancelled-{mode}"
    async with connected(server, AGENT, mode) as client:
        calling = asyncio.create_task(client.call_tool("linger", {"note": note}))
        await eventually(lambda: server.note(note) == "begun")
        calling.cancel()
        await eventually(lambda: server.note(note) == "cancelled")
        await asyncio.wait([calling])
        assert text(await client.call_tool("echo", {"value": "still here"})) == "still here"


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_with_too_many_calls_is_told_when_to_try_again(server: Server, mode: str) -> None:
    busy = Caller(f"mcp-busy-{mode}", "pat")
    async with connected(server, busy, mode) as client:
        notes = [f"mcp-busy-{mode}-{number}" for number in range(3)]
        calls = [asyncio.create_task(client.call_tool("linger", {"note": note})) for note in notes]
        await eventually(lambda: all(server.note(note) == "begun" for note in notes))
        with pytest.raises(MCPError, match="3 running calls") as raised:
            await client.call_tool("echo", {"value": 1})
        assert raised.value.data["retryAfterSeconds"] >= 1
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await eventually(lambda: all(server.note(note) == "cancelled" for note in notes))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer knackbox_wrong"}, 401),
        ({"Authorization": "token", "Host": "evil.example"}, 403),
        ({"Authorization": "token", "Origin": "https://evil.example"}, 403),
    ],
)
async def test_a_request_without_a_token_or_of_a_foreign_page_reaches_nothing(
    server: Server, headers: dict[str, str], status: int
) -> None:
    if headers.get("Authorization") == "token":
        headers = {**headers, "Authorization": f"Bearer {server.token(ADMIN)}"}
    async with httpx.AsyncClient(base_url=server.url, timeout=DEADLINE_S, **PLAIN) as client:
        for method in ("POST", "GET", "DELETE"):
            body = INITIALIZE if method == "POST" else None
            answer = await client.request(method, "/mcp", json=body, headers={**ACCEPT, **headers})
            assert answer.status_code == status
            assert "mcp-session-id" not in answer.headers


async def test_a_session_cannot_be_used_with_another_token(server: Server) -> None:
    async with server.client(AGENT) as mine, server.client(STRANGER) as theirs:
        headers = await open_session(mine)
        call = message("tools/call", {"name": "whoami", "arguments": {}}, 2)
        assert (await theirs.post("/mcp", json=call, headers=headers)).status_code == 404
        assert (await theirs.delete("/mcp", headers=headers)).status_code == 404
        assert (await mine.post("/mcp", json=call, headers=headers)).status_code == 200


async def begin_call(client: httpx.AsyncClient, headers: dict[str, str], go: str) -> str:
    """Begin a call that waits for a file, break the connection, and return the id of the last event received."""
    call = message("tools/call", {"name": "from_a_thread", "arguments": {"go": go}, "_meta": {"progressToken": 1}}, 2)
    async with client.stream("POST", "/mcp", json=call, headers=headers) as answer, aclosing(events_of(answer)) as got:
        async for event_id, content in got:
            if content is not None:  # the report that the call has begun
                return event_id
    raise AssertionError("the call sent no progress")


async def test_a_client_whose_connection_broke_receives_the_result_of_its_call(server: Server) -> None:
    async with asyncio.timeout(DEADLINE_S), server.client(AGENT) as client:
        headers = await open_session(client)
        last = await begin_call(client, headers, "mcp-go-1")
        (server.home.workspace / "mcp-go-1").touch()
        resumed = {**headers, "Last-Event-ID": last}
        async with client.stream("GET", "/mcp", headers=resumed) as answer, aclosing(events_of(answer)) as got:
            async for _, content in got:
                if content is not None and content.get("id") == 2:
                    assert content["result"]["content"][0]["text"] == "done"
                    break


async def test_the_events_of_a_session_cannot_be_received_in_another_session(server: Server) -> None:
    async with asyncio.timeout(DEADLINE_S), server.client(AGENT) as mine, server.client(STRANGER) as theirs:
        headers = await open_session(mine)
        last = await begin_call(mine, headers, "mcp-go-2")
        (server.home.workspace / "mcp-go-2").touch()
        stolen = {**await open_session(theirs), "Last-Event-ID": last}
        async with theirs.stream("GET", "/mcp", headers=stolen) as answer, aclosing(events_of(answer)) as got:
            assert [content async for _, content in got] == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_file_that_a_call_created_can_be_read_only_with_its_token(server: Server, mode: str) -> None:
    path = f"mcp-{mode}.txt"
    async with connected(server, AGENT, mode) as client:
        created = await client.call_tool("jot", {"path": path})
        (link,) = [block for block in created.content if block.type == "resource_link"]
        assert link.uri in {each.uri for each in (await client.list_resources()).resources}
        (read,) = (await client.read_resource(link.uri)).contents
        assert getattr(read, "text", "") == "jotted"
    async with connected(server, STRANGER, mode) as client:
        assert link.uri not in {each.uri for each in (await client.list_resources()).resources}
        with pytest.raises(MCPError) as raised:
            await client.read_resource(link.uri)
        assert raised.value.code == INVALID_PARAMS


class Person:
    """The user of a client, who gives a preset answer and counts the questions."""

    def __init__(self, *, approve: bool) -> None:
        self.approve = approve
        self.asked = 0

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked += 1
        return ElicitResult(action="accept", content={"approve": self.approve})


@pytest.mark.spec("ACCESS-8")
@pytest.mark.parametrize("mode", MODES)
async def test_the_user_of_a_client_approves_calls_if_the_token_allows_it(server: Server, mode: str) -> None:
    for approve in (True, False):
        person = Person(approve=approve)
        async with connected(server, PERSON, mode, elicitation_callback=person) as client:
            result = await client.call_tool("pay", {"amount": 100 + approve})
            assert (person.asked, not result.is_error) == (1, approve)


@pytest.mark.spec("ACCESS-8")
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_cannot_approve_its_own_call_without_that_right(server: Server, mode: str) -> None:
    person = Person(approve=True)
    waits: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        waits.append(message or "")

    async with (
        connected(server, AGENT, mode, elicitation_callback=person) as client,
        server.client(PERSON) as other,
    ):
        paying = asyncio.create_task(client.call_tool("pay", {"amount": 7}, progress_callback=report))
        (waiting,) = await eventually(lambda: pending(other))
        assert waiting["token"] == AGENT.name
        assert await eventually(lambda: waits) == [f"waiting for approval {waiting['id']}"]
        answer = {"approved": True, "digest": waiting["digest"]}
        assert (await other.post(f"/api/approvals/{waiting['id']}", json=answer)).status_code == 204
        assert text(await paying) == "paid 7"
    assert not person.asked


async def pending(client: httpx.AsyncClient) -> Any:
    return (await client.get("/api/approvals")).json()["approvals"]


@pytest.mark.spec("ACCESS-8")
async def test_a_question_cannot_be_answered_with_another_token(server: Server) -> None:
    call = CallToolRequestParams(name="pay", arguments={"amount": 13})
    person = Person(approve=True)
    async with (
        connected(server, PERSON, "2026-07-28", elicitation_callback=person) as mine,
        connected(server, STRANGER, "2026-07-28", elicitation_callback=person) as theirs,
    ):
        asked = await mine.session.call_tool(call.name, call.arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        approved = {"question": ElicitResult(action="accept", content={"approve": True})}
        with pytest.raises(MCPError) as raised:
            await theirs.session.call_tool(
                call.name,
                call.arguments,
                input_responses=approved,
                request_state=asked.request_state,
                allow_input_required=True,
            )
        assert raised.value.code == INVALID_PARAMS
        again = await mine.session.call_tool(  # an answer to something else: the question is repeated
            call.name,
            call.arguments,
            input_responses={"other": approved["question"]},
            request_state=asked.request_state,
            allow_input_required=True,
        )
        assert isinstance(again, InputRequiredResult)
        with pytest.raises(MCPError):  # a token can be used only once
            await mine.session.call_tool(
                call.name, call.arguments, input_responses=approved, request_state=asked.request_state
            )
        paid = await mine.session.call_tool(
            call.name, call.arguments, input_responses=approved, request_state=again.request_state
        )
        assert isinstance(paid, CallToolResult)
        assert text(paid) == "paid 13"


@pytest.mark.parametrize("mode", MODES)
async def test_clients_are_notified_when_any_process_changes_the_tools(server: Server, mode: str) -> None:
    changed = asyncio.Event()

    async def received(content: Any) -> None:
        if "list_changed" in str(getattr(content, "method", "")):
            changed.set()

    async with connected(server, AGENT, mode, message_handler=received) as client:
        listening = asyncio.create_task(listen(client, changed)) if mode != "legacy" else None
        records = await asyncio.to_thread(Records.open, server.home.events_url)
        events = await asyncio.to_thread(EventLog, records, SystemClock())
        try:

            async def announced() -> bool:
                await asyncio.to_thread(events.append, REGISTRY_UPDATED, {"subject": "tools"})
                return changed.is_set()

            await eventually(announced, pause_s=0.1)  # repeated, because the stream may not be open at first
        finally:
            await asyncio.to_thread(records.close)
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])


async def listen(client: Client, changed: asyncio.Event) -> None:
    async with client.listen(tools_list_changed=True) as stream:
        async for _ in stream:
            changed.set()


def test_the_number_of_sessions_is_limited_and_idle_ones_end(tmp_path: Path) -> None:
    with running(tmp_path, "[http]\nmcp_sessions = 2\nmcp_idle_s = 1.0\n") as server:
        headers = {**ACCEPT, "Authorization": f"Bearer {server.token(AGENT)}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=DEADLINE_S, **PLAIN) as client:
            first = [client.post("/mcp", json=INITIALIZE) for _ in range(2)]
            assert [each.status_code for each in first] == [200, 200]
            assert client.post("/mcp", json=INITIALIZE).status_code == 503
            eventually_sync(lambda: client.post("/mcp", json=INITIALIZE).status_code == 200)
            old = {"Mcp-Session-Id": first[0].headers["mcp-session-id"], "Mcp-Protocol-Version": VERSION}
            assert client.post("/mcp", json=message("tools/list"), headers=old).status_code == 404


def test_open_streams_do_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    async def hold_streams(server: Server) -> None:
        async with connected(server, AGENT, "2026-07-28") as client, server.client(AGENT) as other:
            headers = await open_session(other)
            async with (
                client.listen(tools_list_changed=True) as stream,
                other.stream("GET", "/mcp", headers=headers) as answer,
            ):
                assert answer.status_code == 200
                server.process.terminate()
                assert [each async for each in stream] == []  # ends without an error
                async for _ in answer.aiter_bytes():
                    pass
                assert await eventually(lambda: server.process.poll() is not None)

    with running(tmp_path) as server:
        asyncio.run(hold_streams(server))
        assert server.process.returncode == 0
