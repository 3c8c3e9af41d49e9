"""Kernels through the interfaces: a real MCP client of the installed server, and the agent loop with a scripted model."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.agent.scripted_model import calls, says, serving
from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 60

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-4", "TOOL-1")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Client, Path]]:
    """Yield a client and its home. One task enters and leaves the client, because the SDK requires it."""
    home = tmp_path_factory.mktemp("home")
    first, *rest = command("--home", str(home), "mcp")
    parameters = StdioServerParameters(command=first, args=rest, cwd=str(REPOSITORY), env={**os.environ})
    ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with Client(parameters) as client:
            ready.set_result(client)
            await done.wait()

    holder = asyncio.create_task(hold())
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.wait([holder, ready], return_when=asyncio.FIRST_COMPLETED)
    yield await ready, home
    done.set()
    async with asyncio.timeout(DEADLINE_S):
        await holder
    assert list((home / "run").iterdir()) == []


async def cell(client: Client, code: str, **more: Any) -> CallToolResult:
    async with asyncio.timeout(DEADLINE_S):
        return await client.call_tool("execute", {"language": "python", "code": code, "stateful": True}, **more)


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.spec("FACE-2")
async def test_an_mcp_client_keeps_its_variables_between_calls(server: tuple[Client, Path]) -> None:
    client, _ = server
    first = await cell(client, "x = 20")
    assert not first.is_error
    assert first.structured_content is not None
    result = await cell(client, "x + 22")
    assert text(result) == "42"
    assert result.structured_content is not None
    assert result.structured_content["cell"] == first.structured_content["cell"] + 1


@pytest.mark.spec("FACE-2")
async def test_an_mcp_client_receives_output_as_progress(server: tuple[Client, Path]) -> None:
    client, _ = server
    seen: list[str | None] = []

    async def note(_progress: float, _total: float | None, message: str | None) -> None:
        seen.append(message)

    await cell(client, "for n in range(3):\n    print('at', n, flush=True)", progress_callback=note)
    assert "at 2" in "\n".join(filter(None, seen))


@pytest.mark.spec("KERN-6")
async def test_the_command_line_shows_the_kernels_of_a_running_mcp_server(server: tuple[Client, Path]) -> None:
    client, home = server
    await cell(client, "seen = 1")
    words = command("--home", str(home), "kernel", "show", "--json")
    process = await asyncio.create_subprocess_exec(*words, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(DEADLINE_S):
        out, _ = await process.communicate()
    shown = json.loads(out)
    assert shown["cells"][-1]["code"] == "seen = 1"
    assert "seen" in {each["name"] for each in shown["variables"]["variables"]}


@pytest.mark.spec("LOOP-1")
async def test_a_model_in_the_agent_loop_uses_one_kernel(tmp_path: Path) -> None:
    def wanted(code: str) -> tuple[str, dict[str, Any]]:
        return ("execute", {"language": "python", "code": code, "stateful": True})

    async with serving(calls(wanted("x = 20")), calls(wanted("x + 22")), says("It is 42.")) as model:
        process = await asyncio.create_subprocess_exec(
            *command("--home", str(tmp_path), "chat", "What is it?"),
            cwd=REPOSITORY,
            env={**os.environ, "KNACKBOX_MODEL_NAME": "scripted", "KNACKBOX_MODEL_BASE_URL": model.base_url},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(DEADLINE_S):
            out, _ = await process.communicate()
        assert out == b"It is 42.\n"
        assert any("42" in content for content in model.tool_messages())
