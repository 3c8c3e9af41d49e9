"""The MCP server as a process of its own, driven by the official SDK's client over stdio, in both protocol eras."""

import asyncio
import fcntl
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent, Tool, ToolListChangedNotification

from tests.interfaces.learning import forget, learn

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
FIRST_WITH_LISTEN = "2026-07-28"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Connection:
    """One client of one server process, kept for all tests of a protocol era, since each start takes seconds."""

    client: Client
    home: Path
    heard: list[object]

    async def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        async with asyncio.timeout(DEADLINE_S):
            return await self.client.call_tool(name, arguments)

    async def listed(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


async def hold(mode: str, home: Path, ready: "asyncio.Future[Connection]", done: asyncio.Event) -> None:
    """Connect, and stay so until done: the SDK wants its scopes left in the task that entered them."""
    heard: list[object] = []

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.append(message)

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.interfaces.mcp_server_script", str(home)],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with Client(server, mode=mode, message_handler=note) as client:
        ready.set_result(Connection(client, home, heard))
        await done.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["legacy", "auto"])
async def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    ready: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()
    holder = asyncio.create_task(hold(request.param, tmp_path_factory.mktemp("home"), ready, done))
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.wait([holder, ready], return_when=asyncio.FIRST_COMPLETED)
    yield ready.result() if ready.done() else holder.result()  # type: ignore[misc]
    done.set()
    async with asyncio.timeout(DEADLINE_S):
        await holder


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.spec("FACE-2")
async def test_tools_are_listed_and_called(server: Connection) -> None:
    listed = await server.listed()
    assert listed["double"].input_schema["required"] == ["x"]
    assert "unreachable" not in listed
    result = await server.call("double", x=21)
    assert (text(result), result.is_error) == ("42", False)


@pytest.mark.spec("FACE-2", "BOX-1")
async def test_code_runs_in_a_box_and_its_value_is_structured(server: Connection) -> None:
    result = await server.call("run_box", code="print('hi'); 6 * 7")
    assert result.structured_content == {"end": "ok", "value": 42}
    assert text(result) == "hi\n"


@pytest.mark.spec("CALL-4")
async def test_failures_are_results_and_not_protocol_errors(server: Connection) -> None:
    unknown = await server.call("dubble", x=1)
    wrong = await server.call("double", x="many")
    assert unknown.is_error
    assert "double" in text(unknown)
    assert wrong.is_error
    assert wrong.meta is not None
    assert wrong.meta["knackbox/failure_class"] == "DIAGNOSTIC"
    assert text(await server.call("double", x=1)) == "2"


@pytest.mark.spec("FACE-2")
async def test_what_a_tool_prints_does_not_get_into_the_protocol(server: Connection) -> None:
    assert not (await server.call("noisy")).is_error
    assert text(await server.call("double", x=1)) == "2"


@pytest.mark.spec("FACE-2")
async def test_progress_reaches_the_caller_in_order_and_grows(server: Connection) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    result = await server.client.call_tool("steps", {"count": 4}, progress_callback=note)
    await until(lambda: len(seen) == 4)
    assert text(result) == "done"
    assert [message for _, _, message in seen] == ["step 1", "step 2", "step 3", "step 4"]
    assert [progress for progress, _, _ in seen] == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.spec("FACE-2", "BOX-4")
async def test_cancelling_a_call_kills_its_box_and_the_server_goes_on(server: Connection) -> None:
    lock = server.home / "workspace" / "lock"
    task = asyncio.create_task(server.call("hold_lock"))
    await until(lambda: locked(lock))  # the box lives
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not locked(lock))  # the box is dead, long before its time was over
    assert text(await server.call("double", x=2)) == "4"


@pytest.mark.spec("FACE-2", "STATE-1")
@pytest.mark.parametrize("origin", ["here", "elsewhere"])
async def test_clients_hear_of_tools_that_were_learned_or_forgotten(server: Connection, origin: str) -> None:
    async with hearing(server) as heard:
        if origin == "here":
            await server.call("teach", name="roman")
        else:
            await asyncio.to_thread(learn, str(server.home), "roman")
        await until(heard)
        assert "roman" in await server.listed()
        assert text(await server.call("roman")) == "roman ran"
    async with hearing(server) as heard:
        await asyncio.to_thread(forget, str(server.home), "roman")
        await until(heard)
        assert "roman" not in await server.listed()


@asynccontextmanager
async def hearing(server: Connection) -> AsyncIterator[Callable[[], bool]]:
    """Whether news of changed tools came since: by listening where the protocol has that, else unasked."""
    capabilities = server.client.server_capabilities.tools
    assert capabilities is not None
    assert capabilities.list_changed is True
    if server.client.protocol_version < FIRST_WITH_LISTEN:
        server.heard.clear()
        yield lambda: bool(server.heard)
        return
    heard: list[object] = []
    async with server.client.listen(tools_list_changed=True) as events:

        async def note() -> None:
            heard.append(await anext(aiter(events)))

        task = asyncio.create_task(note())
        yield lambda: bool(heard)
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.02)


def locked(file: Path) -> bool:
    """Whether somebody holds the file's lock."""
    if not file.exists():
        return False
    with file.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
