"""The socket of a process with kernels refuses other users and invalid requests."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from builtin_tools.kernels.service import Kernels
from engine.app.engine import Engine
from tests.builtin_tools.kernels.conftest import Agent

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-6")]


async def said(engine: Engine, line: bytes) -> bytes:
    """Send a line to the socket and return the answer; b"" if it disconnects."""
    (found,) = (engine.services.home.run).iterdir()
    folder = os.open(found.parent, os.O_PATH)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{found.name}", limit=1 << 20)
        try:
            async with asyncio.timeout(20):
                writer.write(line)
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
    finally:
        os.close(folder)


LIST = b'{"do": "list"}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[1]\n",
        b"{}\n",
        b'{"do": "list"',
        b'{"do": "stop"}\n',
        b'{"do": "dance", "user": "a", "agent": "b", "kernel": "c"}\n',
        b'{"do": "stop", "user": 1, "agent": [], "kernel": {}}\n',
        b"[" * 50_000 + b"\n",
        b"\xff\xfe\n",
    ],
)
async def test_an_invalid_request_is_refused_and_the_next_client_is_served(agent: Agent, line: bytes) -> None:
    await agent.cell("1")
    running = asyncio.ensure_future(said(agent.engine, line if line.endswith(b"\n") else line + b"\n"))
    answer = json.loads(await running)
    assert answer["ok"] is False
    assert json.loads(await said(agent.engine, LIST))["ok"] is True


async def test_a_request_over_the_size_limit_is_disconnected(agent: Agent) -> None:
    await agent.cell("1")
    assert await said(agent.engine, b"x" * (1 << 20)) == b""
    assert json.loads(await said(agent.engine, LIST))["ok"] is True


async def test_another_user_is_not_served(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await agent.cell("1")
    real = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: real + 1)
        assert await said(agent.engine, LIST) == b""
    assert json.loads(await said(agent.engine, LIST))["ok"] is True


async def test_silent_clients_are_limited_and_disconnected_when_the_engine_closes(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        await engine.need(Kernels).pool()
        waiting = [asyncio.ensure_future(said(engine, b"")) for _ in range(20)]
        async with asyncio.timeout(20):
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert await asyncio.gather(*waiting) == [b""] * 20
