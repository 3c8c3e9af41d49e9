"""Starts one MCP server as a process, and times its first answers."""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DEADLINE_S = 120
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "knackbox-bench", "version": "0"},
}


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Milliseconds from the start of the process to each answer, and the number of tools that it listed."""

    initialize_ms: float
    tools_ms: float
    tools: int


async def start(command: Sequence[str], environ: Mapping[str, str]) -> StartTimes:
    """Start a server, send `initialize` at once, and send `tools/list` as soon as that is answered.

    Raises:
        RuntimeError: The server answered with an error, or ended before it answered. If it ended, the message
            contains the end of its stderr.
    """
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(_DEADLINE_S):
            await _send(process, "initialize", _HELLO, 1)
            await _answer(process, 1)
            initialized = time.perf_counter()
            await _send(process, "notifications/initialized")
            await _send(process, "tools/list", number=2)
            listed = await _answer(process, 2)
            answered = time.perf_counter()
            assert process.stdin is not None
            process.stdin.close()
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return StartTimes((initialized - started) * 1e3, (answered - started) * 1e3, len(listed["tools"]))


async def _send(
    process: asyncio.subprocess.Process, method: str, params: Mapping[str, Any] | None = None, number: int | None = None
) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
    if number is not None:
        message["id"] = number
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # the server has ended, which `_answer` reports with its stderr
        process.stdin.write(json.dumps(message).encode() + b"\n")
        await process.stdin.drain()


async def _answer(process: asyncio.subprocess.Process, number: int) -> dict[str, Any]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        message = json.loads(line)
        if message.get("id") == number and "result" in message:
            result: dict[str, Any] = message["result"]
            return result
        if message.get("id") == number:
            raise RuntimeError(f"the server answered with an error: {message.get('error')}")
    assert process.stderr is not None
    stderr = (await process.stderr.read()).decode("utf-8", "replace")
    raise RuntimeError(f"the server ended before it answered: {stderr[-500:]}")
