"""Compares what agents do after `kill -9`: Knackbox, LangGraph with SQLite, and pydantic-ai with DBOS (LOOP-5).

All do the same scripted run of 50 turns and 60 calls, of which 32 have effects. It is killed once: when a request
reaches the model, at the beginning of a call, or after the effect of a call and before its result. A new process
continues it. Then the effects that happened twice or not at all are counted, and calls without exactly one result.

The peers are started with an interpreter that has them installed, in processes whose state is in a temporary folder.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.durability.model_server import ScriptedServer, scripted_server
from bench.durability.scenario import CALLS, ROUNDS, calls_without_one_result, count_effects, rounds
from bench.durability.worker import ACTIONS_FILE, Order, line_of
from bench.table import show

PEERS = {"LangGraph + SQLite": ("langgraph_worker", "langgraph"), "pydantic-ai + DBOS": ("dbos_worker", "dbos")}
HELP = (
    "Install them for another interpreter and name it: python -m venv peers && peers/bin/pip install langgraph "
    "langgraph-checkpoint-sqlite langchain-openai 'pydantic-ai-slim[dbos,openai]', then --peers peers/bin/python."
)
OURS = "Knackbox"
DEADLINE_S = 300.0
_TIMES = ("resumed_p50_s", "resumed_p95_s", "imports_s", "run_s")
_REPOSITORY = Path(__file__).parents[2]

Point = tuple[str, int]


@dataclass
class KillOutcomes:
    """What the kills of the runs of one system have shown."""

    whole: dict[str, Any] = field(default_factory=dict)
    stored: int = 0
    kills: int = 0
    duplicates: int = 0
    lost_effects: int = 0
    lost_calls: int = 0
    unfinished: int = 0
    resumed_s: list[float] = field(default_factory=list)

    def row(self, way: str) -> dict[str, Any]:
        several = len(self.resumed_s) > 1
        return {
            "what": "durability",
            "code": "run",
            "way": way,
            "count": self.kills,
            "ratio": None,
            "duplicates": self.duplicates,
            "lost_effects": self.lost_effects,
            "lost_calls": self.lost_calls,
            "unfinished": self.unfinished,
            "resumed_p50_s": statistics.median(self.resumed_s) if self.resumed_s else None,
            "resumed_p95_s": statistics.quantiles(self.resumed_s, n=20, method="inclusive")[-1] if several else None,
            "imports_s": self.whole.get("imports_s"),
            "run_s": self.whole.get("took_s"),
            "written_kb": self.whole["written"] // 1000 if self.whole else None,
            "stored_kb": self.stored // 1000,
        }


class Worker:
    """A process that forks workers of one system."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def work(self, order: Order) -> dict[str, Any]:
        """Let a new process work on the run until it ends or is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line_of(order).encode())
        async with asyncio.timeout(DEADLINE_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("The worker ended.")
        told: dict[str, Any] = json.loads(line)
        return told


def bench(kills: int, console: Console, peers: Path | None) -> list[dict[str, Any]]:
    """Measure, print a table, and return its rows.

    Args:
        kills: How many runs of each system are killed.
        console: Shows the table and the progress.
        peers: The interpreter that has the peers; None to measure only Knackbox.
    """
    commands = {OURS: [sys.executable, "-m", "bench.durability.knackbox_worker"]}
    for name, (module, package) in PEERS.items():
        if peers is not None and _has(peers, package):
            commands[name] = [str(peers), "-W", "ignore", "-m", f"bench.durability.{module}"]
        else:
            console.print(f"Without {name}. {HELP}")
    rows = asyncio.run(_run(commands, points(kills), console))
    wrong = ("duplicates", "lost_effects", "lost_calls", "unfinished")
    title = f"{ROUNDS + 1} turns, {CALLS} calls, killed once"
    show(console, rows, "durability", title, *wrong, *_TIMES, "written_kb", "stored_kb")
    return rows


def points(kills: int) -> list[Point]:
    """Return so many points of the run at which it is killed, spread evenly over all."""
    names = [name for each in rounds() for name, _ in each]
    every: list[Point] = [("request", n) for n in range(2, ROUNDS + 2)]
    every += [("call", n) for n in range(1, CALLS + 1)]
    every += [("effect", n) for n, name in enumerate(names, 1) if name != "look"]
    if kills >= len(every):
        return every
    return [every[(2 * at + 1) * len(every) // (2 * kills)] for at in range(kills)]


async def _run(commands: dict[str, list[str]], at: Sequence[Point], console: Console) -> list[dict[str, Any]]:
    found = {name: KillOutcomes() for name in commands}
    async with AsyncExitStack() as stack:
        server, url = await stack.enter_async_context(scripted_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knackbox-durability-")))
        workers = {name: await stack.enter_async_context(_worker(command)) for name, command in commands.items()}
        progress = stack.enter_context(Progress(console=console, transient=True))
        task = progress.add_task("whole runs", total=len(workers) * (len(at) + 1))
        for number, (name, worker) in enumerate(workers.items()):
            home = folder / f"whole{number}"
            home.mkdir()
            server.expect(home, 0)
            found[name].whole = await worker.work(Order(str(home), url))
            found[name].stored = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
            if count_effects(home) != (0, 0) or calls_without_one_result(server.messages):
                raise RuntimeError(f"{name} has not done the run correctly, although it was not killed.")
            progress.advance(task)
        for kill, point in enumerate(at):
            for number, (name, worker) in enumerate(workers.items()):
                home = folder / f"{kill}-{number}"
                home.mkdir()
                await _kill(worker, server, Order(str(home), url, *point), found[name])
                progress.update(task, advance=1, description=f"{point[0]} {point[1]}")
    return [each.row(name) for name, each in found.items()]


async def _kill(worker: Worker, server: ScriptedServer, order: Order, found: KillOutcomes) -> None:
    """Let a process work until it is killed, and another one continue; count what is wrong then."""
    home = Path(order.folder)
    server.expect(home, order.number if order.point == "request" else 0)
    killed = await worker.work(order)
    if not killed["killed"]:
        raise RuntimeError(f"The run was not killed at {order.point} {order.number}.")
    server.expect(home, 0)
    resumed = await worker.work(Order(order.folder, order.url))
    found.kills += 1
    twice, lost = count_effects(home)
    found.duplicates += twice
    found.lost_effects += lost
    found.lost_calls += calls_without_one_result(server.messages)
    if resumed["killed"] or not server.messages:
        found.unfinished += 1
        return
    acted = [float(each) for each in (home / ACTIONS_FILE).read_text().split()]
    after = [each for each in (*acted, *server.times) if each >= resumed["ready"]]
    found.resumed_s.append(min(after) - resumed["ready"])


@asynccontextmanager
async def _worker(command: Sequence[str]) -> AsyncIterator[Worker]:
    pipe = asyncio.subprocess.PIPE
    # A checkout of its own would be found by PYTHONPATH before this one.
    process = await asyncio.create_subprocess_exec(
        *command, cwd=_REPOSITORY, stdin=pipe, stdout=pipe, env=_environment()
    )
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _environment() -> dict[str, str]:
    """Return the variables of a worker: nothing of this process that could send data elsewhere."""
    return {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir(), "LANGSMITH_TRACING": "false"}


def _has(interpreter: Path, package: str) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    return subprocess.run([str(interpreter), "-c", code], check=False, timeout=60).returncode == 0
