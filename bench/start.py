"""How long it takes to start: an MCP server until it answers, and commands until they end; beside their peers.

Every start is a new process on a home that was used before. Python keeps the bytecode of what it imports, whatever
``PYTHONDONTWRITEBYTECODE`` says outside, since installed programs have it.
"""

import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.mcp_start import Started, start
from bench.table import show
from bench.timing import Series

OURS = "knackbox mcp"
PEER = "FastMCP, one tool"
INITIALIZE = "until `initialize` is answered"
TOOLS = "until `tools/list` is answered"
PLAIN = "python -c pass"
TYPER = "python -c 'import typer'"
_COMMANDS: dict[str, tuple[str, ...]] = {
    "knackbox --help": ("--help",),
    "knackbox exec": ("exec", "python", "-"),
    "knackbox tools": ("tools",),
}
_KNACKBOX = (sys.executable, "-m", "engine.interfaces.cli.main")


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure and show; the rows, with the ratio to the peer."""
    absent = "" if importlib.util.find_spec("fastmcp") else "not installed (pip install -e '.[bench]')"
    if absent:
        console.print(f"left out: {PEER}: {absent}", style="dim")
    with tempfile.TemporaryDirectory(prefix="knackbox-bench-") as folder:
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environ |= {"KNACKBOX_HOME": str(Path(folder) / "home")}
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("starts", total=rounds)
            series = asyncio.run(_run(rounds, environ, partial(progress.advance, task), with_peer=not absent))
    rows = rows_of(series)
    show(console, rows, "start", "from start of the process, milliseconds", "code", "p50_ms", "p95_ms", ratio="to peer")
    return rows


async def _run(rounds: int, environ: dict[str, str], tick: Callable[[], None], *, with_peer: bool) -> list[Series]:
    """All take turns; the first turn of each is not counted."""
    servers: dict[str, Sequence[str]] = {OURS: (*_KNACKBOX, "mcp")}
    if with_peer:
        servers[PEER] = (sys.executable, "-m", "bench.fastmcp_server")
    commands: dict[str, Sequence[str]] = {
        PLAIN: (sys.executable, "-c", "pass"),
        TYPER: (sys.executable, "-c", "import typer"),
        **{name: (*_KNACKBOX, *arguments) for name, arguments in _COMMANDS.items()},
    }
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for way, command in servers.items():
            started = await start(command, environ)
            if turn:
                _note(times, way, started)
        for way, command in commands.items():
            took = await asyncio.to_thread(_until_its_end, command, environ)
            if turn:
                times.setdefault(("command", way), []).append(took)
        if turn:
            tick()
    return [Series(title, way, tuple(values)) for (title, way), values in times.items()]


def _note(times: dict[tuple[str, str], list[float]], way: str, started: Started) -> None:
    times.setdefault((INITIALIZE, way), []).append(started.initialize_ms)
    times.setdefault((TOOLS, way), []).append(started.tools_ms)


def _until_its_end(command: Sequence[str], environ: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, env=environ, input=b"6 * 7\n", capture_output=True, timeout=120, check=False)
    took = (time.perf_counter() - begun) * 1e3
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:].decode()}")
    return took


def rows_of(series: Sequence[Series]) -> list[dict[str, Any]]:
    """One dict per line of the table: servers beside FastMCP, commands beside a Python that imports typer."""
    p50 = {(each.title, each.way): each.p50 for each in series}
    found = []
    for each in sorted(series, key=lambda each: (INITIALIZE, TOOLS, "command").index(each.title)):
        peer = p50.get((each.title, TYPER if each.title == "command" else PEER))
        found.append({"what": "start", **each.as_dict(), "ratio": each.p50 / peer if peer else None})
    return found
