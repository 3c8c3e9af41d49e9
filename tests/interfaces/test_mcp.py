"""The MCP server in a subprocess, used by the official SDK's client over stdio, with old and new protocols."""

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

from tests.eventually import eventually
from tests.interfaces.learning import forget, learn

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
FIRST_WITH_LISTEN = "2026-07-28"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Connection:
    """A client and its server process. All tests of a protocol share it, since starting one takes seconds."""

    client: Client
    home: Path
    notifications: list[object]

    async def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        async with asyncio.timeout(DEADLINE_S):
            return await self.client.call_tool(name, arguments)

    async def listed(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


async def hold(mode: str, home: Path, ready: "asyncio.Future[Connection]", done: asyncio.Event) -> None:
    """Connect, and stay connected until `done`. The SDK requires that the task that entered its scopes leaves them."""
    notifications: list[object] = []

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            notifications.append(message)

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.interfaces.mcp_server_script", str(home)],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with Client(server, mode=mode, message_handler=note) as client:
        ready.set_result(Connection(client, home, notifications))
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
async def test_the_printed_output_of_a_tool_stays_out_of_the_protocol(server: Connection) -> None:
    assert not (await server.call("noisy")).is_error
    assert text(await server.call("double", x=1)) == "2"


@pytest.mark.spec("FACE-2")
async def test_progress_reaches_the_client_in_increasing_order(server: Connection) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    result = await server.client.call_tool("steps", {"count": 4}, progress_callback=note)
    await eventually(lambda: len(seen) == 4)
    assert text(result) == "done"
    assert [message for _, _, message in seen] == ["step 1", "step 2", "step 3", "step 4"]
    assert [progress for progress, _, _ in seen] == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.spec("FACE-2", "BOX-4")
async def test_cancelling_a_call_kills_its_box_but_not_the_server(server: Connection) -> None:
    lock = server.home / "workspace" / "lock"
    task = asyncio.create_task(server.call("hold_lock"))
    await eventually(lambda: locked(lock))  # the box is running
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not locked(lock))  # the box was killed, long before its time limit
    assert text(await server.call("double", x=2)) == "4"


@pytest.mark.spec("FACE-2", "STATE-1")
@pytest.mark.parametrize("origin", ["here", "elsewhere"])
async def test_clients_are_notified_of_learned_and_forgotten_tools(server: Connection, origin: str) -> None:
    async with watching_notifications(server) as notified:
        if origin == "here":
            await server.call("teach", name="roman")
        else:
            await asyncio.to_thread(learn, str(server.home), "roman")
        await eventually(notified)
        assert "roman" in await server.listed()
        assert text(await server.call("roman")) == "roman ran"
    async with watching_notifications(server) as notified:
        await asyncio.to_thread(forget, str(server.home), "roman")
        await eventually(notified)
        assert "roman" not in await server.listed()


@asynccontextmanager
async def watching_notifications(server: Connection) -> AsyncIterator[Callable[[], bool]]:
    """Yield a function that returns whether a notification of changed tools has arrived since.

    Newer protocols need a subscription for it.
    """
    capabilities = server.client.server_capabilities.tools
    assert capabilities is not None
    assert capabilities.list_changed is True
    if server.client.protocol_version < FIRST_WITH_LISTEN:
        server.notifications.clear()
        yield lambda: bool(server.notifications)
        return
    notifications: list[object] = []
    async with server.client.listen(tools_list_changed=True) as events:

        async def note() -> None:
            notifications.append(await anext(aiter(events)))

        task = asyncio.create_task(note())
        yield lambda: bool(notifications)
        task.cancel()
        await asyncio.wait([task])


def locked(file: Path) -> bool:
    """Return whether another process holds the lock of a file."""
    if not file.exists():
        return False
    with file.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
