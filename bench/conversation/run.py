"""Plays a conversation of 200 turns through the whole engine, and asks afterwards for what was planted early."""

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.conversation.forgetful_agent import PAGES, decide, shared_tokens, tokens_of
from engine import Engine
from engine.agent.conversation import Conversation
from engine.agent.events import Report
from engine.app.conversation import open_conversation
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from examples.demo.local_server import serve
from examples.demo.moves import Say

MODEL = "forgetful-agent"
WINDOW = 8_000  # tokens
PLACES = ("harbour", "mill", "tower", "bridge", "garden", "quarry", "station", "market", "chapel", "bakery")
COLOURS = ("amber", "violet")  # of the places that users name, and of those on pages
TURN = Turn(allowed=Allowed.of(["recall", "bench_page"]))


def code(colour: str, place: str) -> str:
    """Return the code of a place, which cannot be guessed from other codes."""
    return f"K{(COLOURS.index(colour) * 7919 + PLACES.index(place) * 104729 + 4831) % 90000 + 10000}"


def fact(colour: str, place: str) -> str:
    return f"The code of the {colour} {place} is {code(colour, place)}."


@tool(annotations=Annotations(read_only=True))
async def bench_page(task: int, page: int) -> str:
    """Return a page of the report of a task.

    Args:
        task: The number of the task.
        page: The number of the page.
    """
    lines = [f"Line {n} of the report for task {task} mentions nothing of interest." for n in range(1, 31)]
    if page == 2 and task <= len(PLACES):
        lines[20] = fact(COLOURS[1], PLACES[task - 1])
    return f"Page {page} of task {task}.\n" + "\n".join(lines[: 30 if page == 2 else 8])


@dataclass(frozen=True, slots=True)
class Variant:
    """How the loop treats the conversation.

    Attributes:
        window: The window of the model in tokens; 0 for no limit.
        compact_to: The share of the window that a request has after a compaction.
    """

    name: str
    window: int = WINDOW
    compact_to: float = 0.4


VARIANTS = (Variant("no window", 0), Variant("down to 40 %"), Variant("down to 75 %", compact_to=0.75))


@dataclass(slots=True)
class ConversationRecord:
    """What happened in one conversation.

    Attributes:
        tokens: The tokens of each request, in order, without those of the questions.
        cached: How many of them a provider's cache would have had.
        refused: Requests that the model refused as too long.
        compactions: How often parts of the conversation were moved out.
        reached: For each fact, where it was found: prompt, recall, handle or lost.
        unreadable: Handles of the early results that did not return exactly what the tool had returned.
    """

    variant: str
    tokens: list[int] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    refused: int = 0
    compactions: int = 0
    reached: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def counting(self, start: str) -> int:
        """Return how many facts were reached in a way that begins with this word."""
        return sum(where == start for where in self.reached.values())


async def run(turns: int, variant: Variant, tick: Callable[[], None] = lambda: None) -> ConversationRecord:
    """Play a conversation in a temporary home.

    Args:
        turns: Requests to the model before the questions.
        variant: How the loop treats the conversation.
        tick: Called after each message of the user.
    """
    record = ConversationRecord(variant.name)
    with tempfile.TemporaryDirectory(prefix="knackbox-conversation-") as folder:
        async with _model(record, variant.window) as url:
            settings = Settings.model_validate(
                {
                    "model": {"name": MODEL, "base_url": url, "api_key": "none", "context_tokens": variant.window},
                    "context": {"summary": "rule", "compact_to": variant.compact_to},
                }
            )
            sources = [StaticSource("bench", (bench_page,))]
            async with (
                Engine.open(Path(folder), settings=settings, sources=sources, environ={}) as engine,
                open_conversation(engine, turn=TURN, stream=False) as conversation,
            ):
                await _play(turns, engine, conversation, record, tick)
    return record


async def _play(
    turns: int, engine: Engine, conversation: Conversation, record: ConversationRecord, tick: Callable[[], None]
) -> None:
    reports: list[Report] = []
    for task in range(1, turns // (PAGES + 1) + 1):
        said = fact(COLOURS[0], PLACES[task - 1]) if task <= len(PLACES) else "Nothing new."
        reports.append(await conversation.run(f"Task {task}: read its report. {said}"))
        tick()
    asked_from = len(record.tokens)
    for colour in COLOURS:
        for place in PLACES:
            report = await conversation.run(f"Question: what is the code of the {colour} {place}?")
            answer, _, where = report.answer.partition(" ")
            record.reached[f"{colour} {place}"] = where.strip("()") if answer == code(colour, place) else "lost"
            reports.append(report)
            tick()
    del record.tokens[asked_from:], record.cached[asked_from:]
    kinds = [json.loads(each.entry)["kind"] for report in reports for each in engine.runs.entries(report.run)]
    record.compactions = kinds.count("compacted")
    for report in reports[: len(PLACES)]:
        for call in report.calls:
            handle = f"result://{call.result.audit.call_id}"
            read = await engine.call("recall", {"handle": handle}, Turn(run=reports[-1].run))
            if read.message != call.result.message:
                record.unreadable.append(handle)


@asynccontextmanager
async def _model(record: ConversationRecord, window: int) -> AsyncIterator[str]:
    """Serve the agent as a model over HTTP, with the OpenAI protocol. Yields its base URL."""
    earlier: dict[str, Any] | None = None

    async def answer(request: Request) -> JSONResponse:
        nonlocal earlier
        body = await request.json()
        size = tokens_of(body)
        if window and size > window:
            record.refused += 1
            error = f"This model's maximum context length is {window} tokens, but the request has {size}."
            return JSONResponse({"error": {"message": error, "code": "context_length_exceeded"}}, 400)
        cached = shared_tokens(body, earlier)
        earlier = body
        record.tokens.append(size)
        record.cached.append(cached)
        move = decide(body)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(move, Say):
            message["content"] = move.words(body["messages"])
        else:
            function = {"name": move.tool, "arguments": json.dumps(dict(move.arguments))}
            message["tool_calls"] = [{"id": f"call_{len(record.tokens)}", "type": "function", "function": function}]
        reason = "stop" if isinstance(move, Say) else "tool_calls"
        usage = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
        usage_details = {"prompt_tokens_details": {"cached_tokens": cached}}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
        return JSONResponse(head | {"choices": choices, "usage": usage | usage_details})

    async with serve(Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])) as url:
        yield url
