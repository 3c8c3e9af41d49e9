"""Measures what the journal of runs costs, and how fast a run is resumed (LOOP-5).

A scripted model, served over HTTP, calls one tool per turn. Runs with and without a journal take turns. A turn lasts
from one request to the model to the next: the request, the list of tools, a call through the whole engine, and the
journal. It is also measured without the time of the request. A commit is measured by itself, in its thread and as the
event loop sees it: the difference is what it takes to wake the thread and the event loop.
"""

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelResponse
from rich.console import Console
from rich.progress import Progress
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.table import show
from bench.timing import Series
from engine import Engine
from engine.agent.budget import Budget
from engine.agent.clients.model import ModelClient
from engine.agent.conversation import Conversation
from engine.agent.events import CallStarted, Event, TurnStarted
from engine.agent.runs import Runs
from engine.app.conversation import runs_of
from engine.app.models import endpoint_of
from engine.app.settings import Settings
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.entry_writer import NewEntries
from engine.stores.run_journal import ENDED
from examples.demo.local_server import serve

TURNS = 20  # of each run
RESUMED_TURNS = 50
ENTRY_BYTES = 1_500  # about as much as the entry of a result
JOURNAL, MEMORY = "with the journal", "in memory"


async def bench_read(n: int) -> str:
    """Return a short text.

    Args:
        n: Any number.
    """
    return f"saw {n}"


class TimedClient(ModelClient):
    """A client that adds up the time of its requests."""

    spent_s = 0.0

    async def ask(self, *arguments: Any, **options: Any) -> ModelResponse:
        began = time.perf_counter()
        try:
            return await super().ask(*arguments, **options)
        finally:
            self.spent_s += time.perf_counter() - began


SOURCE = StaticSource(
    "measured",
    (
        tool(annotations=Annotations(read_only=True))(bench_read),
        tool(name="bench_write", annotations=Annotations())(bench_read),
    ),
)


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with times in milliseconds."""
    rows = asyncio.run(_run(rounds, console))
    fields = ("code", "p50_ms", "p95_ms")
    show(console, rows, "request", "One turn with one call, milliseconds", *fields, "ratio", ratio="to memory")
    show(console, rows, "turn", "The same without the request, milliseconds", *fields, "ratio", ratio="to memory")
    show(console, rows, "commit", "One commit of the journal, milliseconds", *fields)
    show(console, rows, "resume", "From resuming a run to its first action, milliseconds", *fields)
    return rows


async def _run(rounds: int, console: Console) -> list[dict[str, Any]]:
    async with _model() as url:
        settings = Settings.model_validate(
            {"model": {"name": "scripted", "base_url": url, "api_key": "none"}, "budget": {"turns": 1000}}
        )
        with tempfile.TemporaryDirectory(prefix="knackbox-runs-") as folder:
            async with (
                Engine.open(Path(folder), settings=settings, sources=[SOURCE], packs=False, environ={}) as engine,
                TimedClient(endpoint_of(settings.model)) as client,
            ):
                turns = await _turns(rounds, console, engine, client)
                commits = await _commits(rounds * TURNS, engine)
                resumed = await _resumptions(rounds, engine, client)
    rows = []
    for what, name in itertools.product(("request", "turn"), ("bench_read", "bench_write")):
        usual = turns[what, name, MEMORY].p50
        for way in (MEMORY, JOURNAL):
            series = turns[what, name, way]
            rows.append({"what": what, **series.as_dict(), "ratio": series.p50 / usual})
    rows += [{"what": "commit", **series.as_dict(), "ratio": None} for series in commits]
    return [*rows, {"what": "resume", **resumed.as_dict(), "ratio": None}]


async def _turns(
    rounds: int, console: Console, engine: Engine, client: TimedClient
) -> dict[tuple[str, str, str], Series]:
    times: dict[tuple[str, str, str], list[float]] = {}
    with Progress(console=console, transient=True) as progress:
        for number in progress.track(range(rounds + 1)):
            for name in ("bench_read", "bench_write"):
                for way, runs in ((MEMORY, Runs()), (JOURNAL, runs_of(engine))):
                    began: dict[str, list[float]] = {"request": [], "turn": []}

                    def note(event: Event, began: dict[str, list[float]] = began) -> None:
                        if isinstance(event, TurnStarted):
                            now = time.perf_counter()
                            began["request"].append(now)
                            began["turn"].append(now - client.spent_s)

                    talk = Conversation(engine, client, on_event=note, stream=False, runs=runs)
                    await talk.run(f"{name} {TURNS}")
                    if number:  # the first round is for warming up
                        for what, moments in began.items():
                            took = [(end - start) * 1000 for start, end in itertools.pairwise(moments)]
                            times.setdefault((what, name, way), []).extend(took)
    return {key: Series(key[1], key[2], tuple(found)) for key, found in times.items()}


async def _commits(count: int, engine: Engine) -> list[Series]:
    """Append entries as large as a result, which wait for the disk or not."""
    entry = json.dumps({"kind": "result", "text": "x" * ENTRY_BYTES})
    lease = await asyncio.to_thread(
        engine.runs.create, "commits", "", "{}", NewEntries([(0.0, entry)]), user="bench", agent="bench"
    )
    found = []
    for lasting in (False, True):
        new = NewEntries([(0.0, entry)], lasting=lasting)
        inside: list[float] = []
        outside: list[float] = []

        def append(new: NewEntries = new, inside: list[float] = inside) -> None:
            began = time.perf_counter()
            engine.runs.append(lease, new)
            inside.append((time.perf_counter() - began) * 1000)

        for _ in range(count):
            began = time.perf_counter()
            await asyncio.to_thread(append)
            outside.append((time.perf_counter() - began) * 1000)
        title = "waits for the disk" if lasting else "does not wait for the disk"
        found += [Series(title, "in its thread", tuple(inside)), Series(title, "awaited", tuple(outside))]
    await asyncio.to_thread(engine.runs.append, lease, NewEntries([], ENDED, "answer"))
    await asyncio.to_thread(engine.runs.release, lease)
    return found


async def _resumptions(rounds: int, engine: Engine, client: ModelClient) -> Series:
    """Resume copies of a run that was interrupted after many turns."""
    first = Conversation(engine, client, stream=False, runs=runs_of(engine), budget=Budget(turns=1000))
    run = (await first.run(f"bench_read {RESUMED_TURNS}")).run
    entries = await asyncio.to_thread(engine.runs.entries, run)
    times = []
    for number in range(rounds):
        copy = f"copy{number}"
        await asyncio.to_thread(engine.runs.fork, run, copy, len(entries) - 2)  # without the answer and the end
        acted: list[float] = []

        def note(event: Event, acted: list[float] = acted) -> None:
            if isinstance(event, TurnStarted | CallStarted):
                acted.append(time.perf_counter())

        talk = Conversation(engine, client, on_event=note, stream=False, runs=runs_of(engine))
        began = time.perf_counter()
        await talk.resume(await runs_of(engine).open(copy))
        times.append((acted[0] - began) * 1000)
    return Series(f"{RESUMED_TURNS} turns", "resumed", tuple(times))


@asynccontextmanager
async def _model() -> AsyncIterator[str]:
    """Serve a model that calls the tool that the message names as often as it says. Yields its base URL."""

    async def answer(request: Request) -> JSONResponse:
        messages = (await request.json())["messages"]
        name, wanted = next(each["content"] for each in messages if each["role"] == "user").split()
        made = sum(1 for each in messages if each["role"] == "tool")
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if made < int(wanted):
            function = {"name": name, "arguments": json.dumps({"n": made})}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": f"call_{made}", "type": "function", "function": function}]
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted"}
        return JSONResponse(head | {"choices": choices, "usage": usage})

    async with serve(Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])) as url:
        yield url
