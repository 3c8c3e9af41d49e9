"""`knackbox mcp --tools code`: a client lists three tools, and with them reaches every tool of every server behind it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from engine.interfaces.http.tokens import Caller
from tests.eventually import eventually
from tests.interfaces.cli import REPOSITORY, command, run_as_process
from tests.interfaces.http.servers import running

pytestmark = [pytest.mark.spec("FACE-2", "CODE-6")]
DEADLINE_S = 60
CODE_TOOLS = {"search_tools", "describe_tool", "execute"}


def config_of(folder: Path) -> str:
    script = REPOSITORY / "tests" / "remote" / "mcp_server_script.py"
    arguments = [str(script), "stdio", str(folder)]
    return f"[mcp_servers.far]\ncommand = {sys.executable!r}\nargs = {arguments!r}\ntrusted = true\n"


@asynccontextmanager
async def on_stdio(home: Path) -> AsyncIterator[Client]:
    (home / "config.toml").write_text(config_of(home))
    words = command("--home", str(home), "mcp", "--tools", "code")
    server = StdioServerParameters(
        command=words[0],
        args=words[1:],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with asyncio.timeout(DEADLINE_S), Client(server, cache=None) as client:
        yield client


@asynccontextmanager
async def over_http(home: Path) -> AsyncIterator[Client]:
    words = command("--home", str(home), "mcp", "--http", "--port", "0", "--tools", "code", "--json")
    with running(home, config_of(home), words=words, callers=[Caller("me", "me")]) as server:
        headers = {"Authorization": f"Bearer {server.made['me']}"}
        async with (
            asyncio.timeout(DEADLINE_S),
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=DEADLINE_S) as http,
        ):
            assert (await http.get(server.url.replace("/mcp", "/api/tools"))).status_code == 404
            async with Client(streamable_http_client(server.url, http_client=http), cache=None) as client:
                yield client


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize("transport", [on_stdio, over_http])
async def test_three_tools_find_and_call_the_tools_of_a_server(tmp_path: Path, transport: object) -> None:
    async with transport(tmp_path) as client:  # type: ignore[operator]
        assert {tool.name for tool in (await client.list_tools()).tools} == CODE_TOOLS

        async def is_found() -> bool:  # a list does not wait long for a server that starts
            return "far.echo" in text(await client.call_tool("search_tools", {"query": "return the text"}))

        await eventually(is_found)
        assert '"text"' in text(await client.call_tool("describe_tool", {"name": "far.echo"}))
        code = 'from knackbox import tools\nprint(tools["far.echo"](text="through the gateway"))'
        called = await client.call_tool("execute", {"language": "python", "code": code})
        assert not called.is_error, text(called)
        assert "through the gateway" in text(called)
        assert (await client.call_tool("execute", {"language": "python", "code": "1/0"})).is_error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "0"], "need --http"),
        (["--http", "--allow-list", "any"], "tokens decide"),
        (["--http", "--agent", "any"], "tokens decide"),
        (["--http", "--port", "0"], "there is no token yet"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    ran = run_as_process("--home", str(tmp_path), "mcp", *arguments)
    assert ran.code != 0
    assert said in ran.err
    assert not ran.out
