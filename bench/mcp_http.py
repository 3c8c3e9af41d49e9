"""Calls of a tool that does nothing, over MCP and streamable HTTP, with 1, 10 and 100 clients, beside FastMCP.

Each client sends one call after the other over a persistent connection, without a session (protocol version
2026-07-28). The clients run in one process and use asyncio streams, because clients of an HTTP library would need more
of the machine than the servers. The servers take turns, and only one of them is asked at a time.
"""

import asyncio
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from bench.table import show
from engine.app.home import Home
from engine.interfaces.http.tokens import Caller, Tokens
from engine.stores.clock import SystemClock
from engine.stores.records import Records

CLIENTS = (1, 10, 100)
SECONDS = 3.0  # for one server and number of clients in one round
START_S = 60.0
PEER_PYTHON = "BENCH_FASTMCP_PYTHON"  # a Python that has FastMCP, if this one has not
PEER = "FastMCP"
OURS = "knackbox"
VERSION = "2026-07-28"


@dataclass(frozen=True, slots=True)
class Target:
    """A running server."""

    name: str
    url: str
    token: str = ""

    def request(self) -> bytes:
        """Return a call as the bytes of an HTTP request."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        }
        params = {"name": "nothing", "arguments": {"value": 7}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        parts = urlsplit(self.url)
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "nothing",
            "Content-Length": str(len(body)),
            **({"Authorization": f"Bearer {self.token}"} if self.token else {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {parts.path} HTTP/1.1\r\n{head}\r\n".encode() + body


def bench(rounds: int, console: Console) -> Sequence[dict[str, Any]]:
    """Measure calls per second and the time of a call."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = [stack.enter_context(ours(folder))]
        python = os.environ.get(PEER_PYTHON) or (sys.executable if importlib.util.find_spec("fastmcp") else "")
        if python:
            targets.append(stack.enter_context(peer(python)))
        else:
            console.print(f"{PEER} is not installed (pip install -e '.[bench]', or set {PEER_PYTHON}).")
        for clients in CLIENTS:
            times: dict[str, list[float]] = {target.name: [] for target in targets}
            for _ in range(rounds):
                for target in targets:
                    times[target.name] += asyncio.run(calls(target, clients, SECONDS))
            slowest = len(times[targets[-1].name])
            rows += [row(name, clients, found, rounds * SECONDS, slowest) for name, found in times.items()]
    show(
        console,
        rows,
        "call",
        "A tool that does nothing, over MCP-HTTP",
        "per_s",
        "p50_ms",
        "p95_ms",
        ratio=f"to {PEER}",
    )
    return rows


def row(name: str, clients: int, times: list[float], seconds: float, of_peer: int) -> dict[str, Any]:
    cuts = statistics.quantiles(times, n=20)
    return {
        "what": "call",
        "code": f"{clients} clients",
        "way": f"{name}, {clients} clients",
        "count": len(times),
        "per_s": round(len(times) / seconds, 1),
        "p50_ms": round(1_000 * cuts[9], 2),
        "p95_ms": round(1_000 * cuts[18], 2),
        "ratio": round(len(times) / of_peer, 2),
    }


async def calls(target: Target, clients: int, seconds: float) -> list[float]:
    """Let clients make calls, and return the time of each in seconds."""
    times: list[float] = []
    end = time.monotonic() + seconds
    async with asyncio.timeout(seconds + START_S):
        await asyncio.gather(*(client(target, end, times) for _ in range(clients)))
    return times


async def client(target: Target, end: float, times: list[float]) -> None:
    """Make calls until the end.

    Raises:
        RuntimeError: A call failed.
    """
    parts = urlsplit(target.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    request = target.request()
    try:
        while (began := time.monotonic()) < end:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            if b" 200 " not in head.split(b"\r\n")[0] or b'"7"' not in body:
                raise RuntimeError(f"{target.name} answered {head!r} {body!r}")
            times.append(time.monotonic() - began)
    finally:
        writer.close()


@contextmanager
def ours(folder: Path) -> Iterator[Target]:
    """Run Knackbox's server."""
    home = Home(folder)
    home.create()
    records = Records.open(home.records_url)
    token = Tokens(records, SystemClock()).add(Caller("bench", "bench"))
    records.close()
    words = [sys.executable, "-m", "bench.knackbox_http_server", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Target(OURS, json.loads(process.stdout.readline())["url"], token)
        finally:
            process.terminate()


@contextmanager
def peer(python: str) -> Iterator[Target]:
    """Run FastMCP's server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([python, "-m", "bench.fastmcp_http_server", str(port)]) as process:
        try:
            deadline = time.monotonic() + START_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline or process.poll() is not None:
                        raise
                    time.sleep(0.1)
            yield Target(PEER, f"http://127.0.0.1:{port}/mcp")
        finally:
            process.terminate()


if __name__ == "__main__":
    bench(2, Console())
