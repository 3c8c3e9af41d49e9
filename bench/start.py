"""Times MCP servers until their first answers, and commands until they exit, compared with other programs.

Every start is a new process on a home that was used before. Python writes and uses bytecode even if
``PYTHONDONTWRITEBYTECODE`` is set outside, because installed programs have bytecode.
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

from bench.mcp_start import StartTimes, start
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
    """Measure, print a table, and return its rows, with ratios to the peer."""
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
    title = "From the start of the process, milliseconds"
    show(console, rows, "start", title, "code", "p50_ms", "p95_ms", ratio="ratio to peer")
    return rows


async def _run(rounds: int, environ: dict[str, str], tick: Callable[[], None], *, with_peer: bool) -> list[Series]:
    """Start all programs in turn. The first round is not counted."""
    servers: dict[str, Sequence[str]] = {OURS: (*_KNACKBOX, "mcp")}
    if with_peer:
        servers[PEER] = (sys.executable, "-m", "bench.fastmcp_server")
    commands: dict[str, Sequence[str]] = {
        PLAIN: (sys.executable, "-c", "pass"),
        TYPER: (sys.executable, "-c", "import typer"),
        **{name: (*_KNACKBOX, *arguments) for name, arguments in _COMMANDS.items()},
    }
    times: dict[tuple[str, str], list[float]] = {}
    for round_ in range(rounds + 1):
        for way, command in servers.items():
            started = await start(command, environ)
            if round_:
                _add_times(times, way, started)
        for way, command in commands.items():
            took = await asyncio.to_thread(_run_to_end, command, environ)
            if round_:
                times.setdefault(("command", way), []).append(took)
        if round_:
            tick()
    return [Series(title, way, tuple(values)) for (title, way), values in times.items()]


def _add_times(times: dict[tuple[str, str], list[float]], way: str, started: StartTimes) -> None:
    times.setdefault((INITIALIZE, way), []).append(started.initialize_ms)
    times.setdefault((TOOLS, way), []).append(started.tools_ms)


def _run_to_end(command: Sequence[str], environ: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, env=environ, input=b"6 * 7\n", capture_output=True, timeout=120, check=False)
    took = (time.perf_counter() - started) * 1e3
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr[-500:].decode()}")
    return took


def rows_of(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return one row per series, with the ratio to FastMCP for servers and to ``import typer`` for commands."""
    p50 = {(each.title, each.way): each.p50 for each in series}
    found = []
    for each in sorted(series, key=lambda each: (INITIALIZE, TOOLS, "command").index(each.title)):
        peer = p50.get((each.title, TYPER if each.title == "command" else PEER))
        found.append({"what": "start", **each.as_dict(), "ratio": each.p50 / peer if peer else None})
    return found
