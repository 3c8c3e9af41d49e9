"""An MCP server answers `initialize` before its engine is open, and reports why if it cannot be opened."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli import REPOSITORY

DEADLINE_S = 60
# `knackbox mcp`, printing to stderr what is imported after answering `initialize`, and again at its end.
SERVER = """
import sys
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.cli.main import run

def tell(*_):
    print("IMPORTED", *sorted(name for name in sys.modules if name in HEAVY), file=sys.stderr, flush=True)

HEAVY = {"engine.app.engine", "engine.app.compose", "sqlalchemy", "numpy", "chromadb", "pydantic_ai"}
joined = Clients.joined
Clients.joined = lambda self, session: (tell(), joined(self, session))[1]
code = run(["mcp", *sys.argv[1:]])
tell()
sys.exit(code)
"""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Client:
    """Sends JSON lines to a server and reads its answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, method: str, params: dict[str, Any] | None = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if number is not None:
            message["id"] = number
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def answer(self, number: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the server ended"
                message: dict[str, Any] = json.loads(line)
                if message.get("id") == number:
                    return message

    async def end(self) -> tuple[int, str]:
        """Close stdin and return the server's exit code and stderr."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[Client]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVER,
        *arguments,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,  # the list of tools is one line
    )
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.spec("FACE-12")
async def test_initialize_is_answered_before_the_engine_is_imported(tmp_path: Path) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await client.send("initialize", HELLO, 1)
        assert (await client.answer(1))["result"]["serverInfo"]["name"] == "knackbox"
        await client.send("notifications/initialized")
        await client.send("tools/list", number=2)
        listed = await client.answer(2)
        code, errors = await client.end()
    assert "execute" in {tool["name"] for tool in listed["result"]["tools"]}
    before, after = [set(line.split()[1:]) for line in errors.splitlines() if line.startswith("IMPORTED")]
    assert before == set()
    assert {"engine.app.engine", "sqlalchemy"} <= after
    assert code == 0


@pytest.mark.spec("FACE-12")
async def test_listing_the_tools_loads_no_vectors_and_no_model_client(tmp_path: Path) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await client.send("initialize", HELLO, 1)
        await client.answer(1)
        await client.send("notifications/initialized")
        await client.send("tools/list", number=2)
        await client.answer(2)
        _, errors = await client.end()
    assert "IMPORTED" in errors
    assert not {"chromadb", "numpy", "pydantic_ai"} & set(errors.split())


@pytest.mark.spec("FACE-12")
async def test_an_engine_that_cannot_open_answers_every_request_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "registries").write_text("a file where a folder belongs")
    async with serving("--home", str(tmp_path)) as client:
        await client.send("initialize", HELLO, 1)
        assert "result" in await client.answer(1)
        await client.send("notifications/initialized")
        for number, method in ((2, "tools/list"), (3, "tools/list")):
            await client.send(method, number=number)
            assert "registries" in (await client.answer(number))["error"]["message"]
        await client.send("tools/call", {"name": "execute", "arguments": {}}, 4)
        assert "registries" in (await client.answer(4))["error"]["message"]
        code, errors = await client.end()
    assert code == 3
    assert "Traceback" not in errors


@pytest.mark.spec("FACE-12")
async def test_a_failed_start_is_reported_to_a_client_that_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "registries").write_text("a file where a folder belongs")
    async with serving("--home", str(tmp_path)) as client:
        code, errors = await client.end()
    assert code == 3
    assert "registries" in errors
