"""Runs an MCP server as a process that communicates over stdin and stdout: a transport for the SDK's client.

The SDK's own `stdio_client` limits neither the length of a line nor what a server writes to stderr; here both are
limited. The program is configured by the operator, so it runs outside a box. Its environment variables do not include
Knackbox's keys.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from engine.remote.module import log
from engine.remote.text import one_line

MOST_LINE = 16 << 20  # bytes of one message
MOST_LOGGED = 200  # stderr lines logged per process; the rest is read and discarded
GRACE_S = 2.0  # the time that a process has to exit after stdin is closed, and again after each signal
POLL_S = 0.01
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start.

    Attributes:
        env: Environment variables, in addition to the few that are passed on (`PASSED_ON`).
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def environment(self) -> dict[str, str]:
        return {**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, **self.env}


@asynccontextmanager
async def process_streams(name: str, command: Command, ended: Callable[[], None]) -> AsyncIterator[Streams]:
    """Start the program, and end it and its process group on exit from the context.

    Args:
        ended: Called if the program ends before the context is exited.

    Raises:
        OSError: The program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        command.command,
        *command.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=command.environment(),
        cwd=command.cwd,
        limit=MOST_LINE,
        start_new_session=True,  # in its own process group, so that all of it can be killed
    )
    to_us, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_receive(name, process, to_us, ended)),
        asyncio.create_task(_send(process, from_us)),
        asyncio.create_task(_log(name, process)),
    ]
    try:
        yield received, sent
    finally:
        with anyio.CancelScope(shield=True):  # even a cancellation must not leave a process behind
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for stream in (to_us, received, sent, from_us):
                stream.close()


async def _receive(
    name: str,
    process: asyncio.subprocess.Process,
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
    ended: Callable[[], None],
) -> None:
    """Read one message per line of the process's stdout. The connection ends when this function returns."""
    assert process.stdout is not None  # noqa: S101 -- for the type checker: it is a pipe
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_us:
            try:
                while line := await process.stdout.readline():
                    await to_us.send(_parsed(name, line))
            except ValueError:  # raised by asyncio for a line that is too long
                log.warning("module=%s: a message exceeds %d MiB; the connection is closed.", name, MOST_LINE >> 20)
    ended()


def _parsed(name: str, line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        log.warning("module=%s: a line on stdout is not a message: %s", name, one_line(line.decode("utf-8", "replace")))
        return error


async def _send(process: asyncio.subprocess.Process, from_us: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None  # noqa: S101 -- for the type checker: it is a pipe
    with contextlib.suppress(OSError):  # the process has ended, which `_receive` notices as well
        async for each in from_us:
            process.stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _log(name: str, process: asyncio.subprocess.Process) -> None:
    """Log a limited number of stderr lines. Read and discard the rest, so that the process never blocks on the pipe."""
    assert process.stderr is not None  # noqa: S101 -- for the type checker: it is a pipe
    logged, rest = 0, b""
    while chunk := await process.stderr.read(64 * 1024):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()[-1000:]
        for line in lines[: MOST_LOGGED - logged]:
            log.info("module=%s stderr: %s", name, one_line(line.decode("utf-8", "replace")))
        logged = min(logged + len(lines), MOST_LOGGED)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process as the protocol specifies: close stdin, wait, send SIGTERM to its group, wait, send SIGKILL."""
    assert process.stdin is not None  # noqa: S101 -- for the type checker: it is a pipe
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not await _exited(process):
            _signal(process, number)
    if not await _exited(process):
        log.warning("The process %d of an MCP server did not end after SIGKILL.", process.pid)
    _signal(process, signal.SIGKILL)  # kills processes that the server started and left running
    # Processes outside the group may hold the pipes open, and no public API closes our ends.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


async def _exited(process: asyncio.subprocess.Process) -> bool:
    """Return whether the process exits within `GRACE_S` seconds. Unlike `process.wait`, ignore its pipes."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            while process.returncode is None:  # noqa: ASYNC110 -- there is no event for it
                await asyncio.sleep(POLL_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
