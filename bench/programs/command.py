"""`knackbox bench code`: twenty tasks with over a hundred tools, with one call per request and with one program.

Two HTTP modules and two MCP servers offer 84 tools besides the built-in ones. Both ways must give the right answer.
The time is that of a model that needs a second for each request and writes 50 tokens per second.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.programs.http_module import http_module
from bench.programs.model import PROGRAM, SINGLE, TaskCost, TaskModel, Way, scripted_model
from bench.programs.operations import operations
from bench.programs.records import MODULES, tables
from bench.programs.task import FILES, ToolTask
from bench.programs.tasks import TASKS
from bench.programs.tokens import TokenCounter
from bench.table import show
from engine import Engine
from engine.agent.budget import Budget
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient
from engine.agent.conversation import Conversation
from engine.app.plugins import CHECKOUT
from engine.app.settings import Settings
from engine.contract.turn import Turn
from examples.demo.local_server import serve

HTTP_MODULES = ("crm", "shop")
MCP_SERVERS = ("desk", "staff")
REQUEST_S = 1.0  # the modelled time of a request
TOKENS_PER_S = 50  # of the modelled output
READY_S = 120.0  # until the tools of all modules must be listed
WAYS: tuple[Way, ...] = (SINGLE, PROGRAM)
_COUNTED = ("requests", "input", "new_input", "output", "seconds")
_BUDGET = Budget(turns=500, tool_calls=500, tokens=100_000_000, wall_s=1800.0)


def bench(count: int, console: Console) -> list[dict[str, Any]]:
    """Solve the first `count` tasks both ways, print a table, and return the rows.

    Raises:
        RuntimeError: An answer is wrong.
    """
    tasks = TASKS[:count]
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("tasks", total=len(tasks) * len(WAYS))
        rows = asyncio.run(solve(tasks, lambda: progress.advance(bar)))
    title = f"{len(tasks)} tasks, all answers right: tokens and modelled seconds"
    show(console, rows, "tasks", title, "tools", *_COUNTED, ratio="of first")
    return rows


async def solve(tasks: Sequence[ToolTask], advance: Callable[[], Any] = lambda: None) -> list[dict[str, Any]]:
    """Return a row for each task and way, and the sums of each way.

    Raises:
        RuntimeError: An answer is wrong.
    """
    tokens = await asyncio.to_thread(TokenCounter)
    rows: list[dict[str, Any]] = []
    for way in WAYS:
        async with AsyncExitStack() as stack:
            model, url = await stack.enter_async_context(scripted_model(tokens))
            engine = await stack.enter_async_context(_engine())
            client = await stack.enter_async_context(ModelClient(ModelEndpoint("openai", "scripted", url)))
            for number, task in enumerate(tasks, 1):
                counts = await _solve(engine, client, model, task, way)
                rows.append({"what": "task", "code": number, "way": way, "count": 1, **_row(counts)})
                advance()
    return [*rows, *_sums(rows)]


async def _solve(engine: Engine, client: ModelClient, model: TaskModel, task: ToolTask, way: Way) -> TaskCost:
    model.begin(task, way)
    turn = Turn(use_tool_search_flow=way == PROGRAM)
    report = await Conversation(engine, client, turn=turn, budget=_BUDGET, stream=False).run(task.message)
    right = task.expected(tables())
    try:
        given = json.loads(report.answer)
    except ValueError:
        given = report.answer
    if given != right:
        failed = "; ".join(each.result.text for each in report.calls if not each.result.success)
        raise RuntimeError(f"{way}: {task.message}\nThe answer is {given!r}, and not {right!r}. {failed}")
    return model.counts


def _row(counts: TaskCost) -> dict[str, Any]:
    return {
        "tools": counts.tools,
        "requests": counts.requests,
        "input": counts.input,
        "new_input": counts.new_input,
        "output": counts.output,
        "seconds": counts.requests * REQUEST_S + counts.output / TOKENS_PER_S,
    }


def _sums(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sums of each way. Their ratio is that of the input tokens to those of the first way."""
    sums: list[dict[str, Any]] = []
    for way in WAYS:
        own = [row for row in rows if row["way"] == way]
        total = {name: sum(row[name] for row in own) for name in _COUNTED}
        first = sums[0] if sums else total
        ratio = total["input"] / first["input"]
        sums.append({"what": "tasks", "way": way, "count": len(own), "tools": own[0]["tools"], **total, "ratio": ratio})
    return sums


@asynccontextmanager
async def _engine() -> AsyncIterator[Engine]:
    """Open an engine with the modules, the servers and the files, in a new home."""
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knackbox-bench-")))
        workspace = home / "files"
        workspace.mkdir()
        for name, text in FILES.items():
            (workspace / name).write_text(text)
        urls = {name: await stack.enter_async_context(serve(http_module(name))) for name in HTTP_MODULES}
        servers = {
            name: {
                "command": sys.executable,
                "args": ["-m", "bench.programs.mcp_server", name],
                "cwd": CHECKOUT,
                "trusted": True,
            }
            for name in MCP_SERVERS
        }
        settings = Settings.model_validate(
            {
                "workspace": workspace,
                "modules": {"module_services": urls, "trusted_modules": list(urls)},
                "mcp_servers": servers,
            }
        )
        engine = await stack.enter_async_context(Engine.open(home / "home", settings=settings, environ={}))
        await _ready(engine)
        yield engine


async def _ready(engine: Engine) -> None:
    """Wait until all tools are listed and can be searched.

    A list does not wait long for a server that starts, and a prompt not long for the embedder, which is loaded once.
    """
    wanted = {f"{module}.{each.name}" for module in MODULES for each in operations(module)}
    async with asyncio.timeout(READY_S):
        while not wanted <= {spec.name for spec in await engine.get_active_tool_definitions()}:  # noqa: ASYNC110 -- the servers run elsewhere
            await asyncio.sleep(0.2)
    found = await engine.call("search_tools", {"query": "customers"}, Turn(use_tool_search_flow=True))
    if not found.success:
        raise RuntimeError(found.text)
