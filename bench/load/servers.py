"""Starts the servers that are measured, each in a separate process."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_START_S = 180
_STOP_S = 30
_CONFIG = """
[http]
port = 0
calls_per_token = {most}
connections = {connections}
"""


@dataclass(frozen=True, slots=True)
class LoadServer:
    """A running server.

    Attributes:
        way: The name of the server in the tables.
    """

    way: str
    url: str
    token: str = "none"


@contextlib.contextmanager
def knackbox(home: Path, clients: int) -> Iterator[LoadServer]:
    """Run `knackbox serve` with limits that allow this number of clients."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(_CONFIG.format(most=2 * clients, connections=2 * clients + 10))
    command = [sys.executable, "-m", "engine.interfaces.cli.main", "--home", str(home), "serve"]
    made = subprocess.run(
        [*command, "token", "add", "load", "--json"], capture_output=True, check=True, timeout=_START_S
    )
    token = json.loads(made.stdout)["token"]
    with _running([*command, "--json"]) as process:
        line = process.stdout.readline() if process.stdout else b""
        yield LoadServer("knackbox serve", json.loads(line)["url"], token)


@contextlib.contextmanager
def peer() -> Iterator[LoadServer]:
    """Run the Starlette server of `bench.load.peer`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _running([sys.executable, "-m", "bench.load.peer", str(port)]):
        _wait_until_it_listens(port)
        yield LoadServer("Starlette + python -c", f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_it_listens(port: int) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the peer did not start within {_START_S} s")
