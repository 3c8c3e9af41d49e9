"""SIGINT and SIGTERM stop `knackbox mcp` cleanly while its client keeps the connection open."""

import asyncio
import fcntl
import os
import signal
from pathlib import Path

import pytest

from engine.interfaces.mcp.stdin import StdinLines
from tests.interfaces.cli import here
from tests.interfaces.test_mcp_start import DEADLINE_S, HELLO, Client, serving

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
HOLD = "exec 9> held; flock 9; echo held; sleep 100"


async def ended(client: Client) -> tuple[int, str]:
    """Wait until a server ends although its stdin stays open. Return its exit code and stderr."""
    assert client.process.stderr is not None
    async with asyncio.timeout(DEADLINE_S):
        errors = await client.process.stderr.read()
        code = await client.process.wait()
    return code, "".join(line for line in errors.decode().splitlines(True) if not line.startswith("IMPORTED"))


async def greet(client: Client) -> None:
    await client.send("initialize", HELLO, 1)
    await client.answer(1)
    await client.send("notifications/initialized")


@pytest.mark.spec("FACE-13")
@SIGNALS
async def test_a_signal_ends_an_idle_server_and_closes_its_engine(tmp_path: Path, number: signal.Signals) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await greet(client)
        await client.send("tools/list", number=2)
        await client.answer(2)
        assert list((tmp_path / "engines").iterdir())
        client.process.send_signal(number)
        assert await ended(client) == (0, "")
    assert not list((tmp_path / "engines").iterdir())  # a killed engine would leave a file there


@pytest.mark.spec("FACE-13")
@SIGNALS
async def test_a_signal_ends_a_server_that_no_client_has_used(tmp_path: Path, number: signal.Signals) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await client.send("initialize", HELLO, 1)
        await client.answer(1)
        client.process.send_signal(number)
        assert await ended(client) == (0, "")


@pytest.mark.spec("FACE-13")
@SIGNALS
async def test_a_signal_ends_and_records_the_calls_of_a_busy_server(
    tmp_path: Path, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await greet(client)
        arguments = {"language": "bash", "code": HOLD, "timeout_s": 100}
        await client.send("tools/call", {"name": "execute", "arguments": arguments, "_meta": {"progressToken": "p"}}, 2)
        await progress_with(client, "held")
        client.process.send_signal(number)
        assert await ended(client) == (0, "")
    with (tmp_path / "workspace" / "held").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the box is gone, and its lock with it
    (row,) = (await asyncio.to_thread(here, capfd, "audit", "--json", "--home", str(tmp_path))).last["calls"]
    assert (row["tool"], row["end"]) == ("execute", "killed")
    assert row["duration_ms"] > 0


async def progress_with(client: Client, text: str) -> None:
    """Wait for a progress notification that contains this text."""
    assert client.process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        while line := await client.process.stdout.readline():
            if text in line.decode() and "progress" in line.decode():
                return
    raise AssertionError("the server ended")


async def lines_of(descriptor: int) -> list[str]:
    async with asyncio.timeout(DEADLINE_S):
        return [line async for line in StdinLines(descriptor)]


@pytest.mark.spec("FACE-13")
async def test_complete_lines_are_read_from_pipes_and_files(tmp_path: Path) -> None:
    data = b"one\r\n\n" + b"x" * 300_000 + b"\n\xff no line end"
    wanted = ["one\r\n", "\n", "x" * 300_000 + "\n", "\ufffd no line end"]
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        assert await lines_of(file.fileno()) == wanted
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            stream.write(data)

    found, _ = await asyncio.gather(lines_of(reading), asyncio.to_thread(write))
    os.close(reading)
    assert found == wanted


@pytest.mark.spec("FACE-13")
async def test_closing_ends_a_waiting_iteration() -> None:
    reading, writing = os.pipe()
    lines = StdinLines(reading)
    waiting = asyncio.ensure_future(anext(lines, "ended"))
    await asyncio.sleep(0)
    lines.close()
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == "ended"
    os.close(reading)
    os.close(writing)
