"""Measures a swarm: 200 child runs, 20 at a time, compared with the same tasks one after the other (SWARM-3).

A scripted model, served over HTTP by a process of its own, takes 500 ms for each answer. In the second part, the
process that runs the swarm is killed and started again, and child runs are cancelled, at random; then each child run
must have ended exactly once.
"""

import asyncio
import multiprocessing
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from rich.console import Console
from rich.progress import Progress
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.table import show
from engine import Engine
from engine.app.background import background
from engine.app.conversation import open_conversation
from engine.app.settings import Settings
from engine.stores.run_journal import ENDED

CHILDREN = 200
SLOTS = 20
ANSWER_S = 0.5
SEQUENTIAL = 20  # tasks that are measured one after the other; the time of all is computed from them
TOOL = "delegate_to_swarm"
CANCELLED = 0.1  # share of the child runs that are cancelled in the second part
DEADLINE_S = 900.0


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows.

    Args:
        rounds: How many times the process is killed in the second part.
        console: Shows the tables and the progress.
    """
    with _model() as url:
        rows = asyncio.run(_speed(url, console))
        rows += _kills(url, rounds, console)
    fields = ("seconds",)
    show(
        console,
        rows[:2],
        "speed",
        f"{CHILDREN} tasks, each one answer of {ANSWER_S * 1000:.0f} ms",
        *fields,
        ratio="times faster",
    )
    kept = ("kills", "ended", "answered", "cancelled", "ended_twice", "left")
    show(console, rows[2:], "kills", "The same with kills and cancellations", *kept)
    return rows


def settings_for(url: str) -> Settings:
    values = {"model": {"name": "scripted", "base_url": url, "api_key": "none"}, "packs": {"swarm": {"slots": SLOTS}}}
    return Settings.model_validate(values)


async def _speed(url: str, console: Console) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="knackbox-swarm-") as folder:
        async with Engine.open(Path(folder), settings=settings_for(url), environ={}) as engine:
            await engine.call(TOOL, {"tasks": ["warm up"]})
            with Progress(console=console, transient=True) as progress:
                bar = progress.add_task("one after the other", total=SEQUENTIAL)
                async with open_conversation(engine, stream=False) as talk:
                    began = time.perf_counter()
                    for number in range(SEQUENTIAL):
                        await talk.run(f"task {number}")
                        progress.advance(bar)
                sequential = (time.perf_counter() - began) / SEQUENTIAL * CHILDREN
                bar = progress.add_task("swarm", total=CHILDREN)

                def report(_message: str, fraction: float | None = None) -> None:
                    progress.update(bar, completed=CHILDREN * (fraction or 0.0))

                began = time.perf_counter()
                tasks = [f"task {number}" for number in range(CHILDREN)]
                result = await engine.call(TOOL, {"tasks": tasks, "timeout_seconds": DEADLINE_S}, progress=report)
                swarm = time.perf_counter() - began
    if not result.success or result.output["ended"] != CHILDREN or result.output["failed"]:
        raise RuntimeError(f"not all tasks were answered: {result.text[:500]}")
    return [
        {
            "what": "speed",
            "code": "runs",
            "way": "one after the other",
            "count": SEQUENTIAL,
            "seconds": sequential,
            "ratio": 1.0,
        },
        {
            "what": "speed",
            "code": "runs",
            "way": f"{SLOTS} at a time",
            "count": CHILDREN,
            "seconds": swarm,
            "ratio": sequential / swarm,
        },
    ]


def _kills(url: str, kills: int, console: Console) -> list[dict[str, Any]]:
    pick = random.Random(1)
    with (
        tempfile.TemporaryDirectory(prefix="knackbox-swarm-") as folder,
        Progress(console=console, transient=True) as bar,
    ):
        task = bar.add_task("killed and cancelled", total=CHILDREN)
        home, process, killed = Path(folder), _start(folder, url), 0
        until = time.monotonic() + DEADLINE_S
        due = _ended(home) + 1
        while (ended := _ended(home)) < CHILDREN and time.monotonic() < until:
            bar.update(task, completed=ended)
            if killed < kills and ended >= due:
                _cancel_some(home, pick)
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
                due = ended + max((CHILDREN - ended) // (kills - killed + 2), 1)
                process = _start(folder, url)
            time.sleep(pick.uniform(0.01, 0.2))
        process.terminate()
        process.wait()
        return [
            {
                "what": "kills",
                "code": "runs",
                "way": f"{SLOTS} at a time",
                "count": CHILDREN,
                "ratio": None,
                "kills": killed,
                **_outcome(home),
            }
        ]


def _start(home: str, url: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "bench.swarm", home, url])


def _ended(home: Path) -> int:
    return _number(home, "SELECT count(*) FROM child_runs WHERE state = 'ended'")


def _cancel_some(home: Path, pick: random.Random) -> None:
    """Cancel a few child runs that have not ended, as the tool does."""
    with closing(sqlite3.connect(home / "runs.db", timeout=30)) as connection, connection:
        rows = connection.execute("SELECT id FROM child_runs WHERE state != 'ended' AND NOT cancelled").fetchall()
        chosen = [row for row in rows if pick.random() < CANCELLED / 4]
        connection.executemany("UPDATE child_runs SET cancelled = 1 WHERE id = ?", chosen)


def _outcome(home: Path) -> dict[str, Any]:
    """Return how the child runs ended, and what is left behind."""
    with closing(sqlite3.connect(home / "runs.db", timeout=30)) as connection:
        finishes = Counter(dict(connection.execute("SELECT finish, count(*) FROM child_runs GROUP BY finish")))
        ends = (
            "SELECT run FROM run_entries WHERE json_extract(entry, '$.kind') = 'ended' GROUP BY run HAVING count(*) > 1"
        )
        twice = len(connection.execute(ends).fetchall())
        unended = connection.execute("SELECT count(*) FROM runs WHERE state != ?", (ENDED,)).fetchone()[0]
    locks = len(list((home / "engines").iterdir()))
    return {
        "ended": _ended(home),
        "answered": finishes["answer"],
        "cancelled": finishes["cancelled"],
        "ended_twice": twice,
        "left": unended + locks,
    }


def _number(home: Path, query: str) -> int:
    if not (home / "runs.db").exists():
        return 0
    try:
        with closing(sqlite3.connect(home / "runs.db", timeout=30)) as connection:
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # the tables are being created
        return 0


@contextmanager
def _model() -> Iterator[str]:
    """Serve the model in a process of its own. Yields its base URL."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        process.terminate()
        process.join()
        listener.close()


def _serve(listener: socket.socket) -> None:
    async def answer(_request: Request) -> JSONResponse:
        await asyncio.sleep(ANSWER_S)
        message = {"role": "assistant", "content": "Done."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted"}
        return JSONResponse(head | {"choices": choices, "usage": usage})

    app = Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])
    config = uvicorn.Config(app, log_level="critical", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


async def _work(home: Path, url: str) -> None:
    """Start the swarm, unless it has been started, and work on it until killed."""
    async with Engine.open(home, settings=settings_for(url), environ={}) as engine, background(engine):
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        if not await asyncio.to_thread(engine.services.child_runs.recent, "local", "main"):
            tasks = [f"task {number}" for number in range(CHILDREN)]
            await engine.call(TOOL, {"tasks": tasks, "wait": "none", "key": "bench"})
        await stopping.wait()


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), sys.argv[2]))
