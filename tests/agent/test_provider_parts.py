"""A resumed conversation sends the same messages to its provider as one that was not interrupted (LOOP-5)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from engine.agent.budget import Finish
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient
from engine.agent.conversation import Conversation
from engine.agent.runs import Runs
from engine.app.databases import open_run_journal
from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.prompt_block import NO_BLOCKS, PromptBlocks
from engine.contract.result import ToolResult
from engine.contract.run_summary import RunSummary
from engine.contract.spec import Annotations, ToolSpec
from engine.contract.turn import Turn
from engine.stores.clock import SystemClock

LOOK = ToolSpec("look", "Looks.", annotations=Annotations(read_only=True))
USAGE = {"input_tokens": 1, "output_tokens": 1}
OF_ANTHROPIC = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": USAGE}
THOUGHTS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
    {"type": "redacted_thinking", "data": "aGlkZGVu"},
]
CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {"n": 1}}
OF_OPENAI = {"id": "c1", "object": "chat.completion", "created": 0, "model": "m"}
OPENAI_CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
GEMINI_CALL = {"functionCall": {"id": "t1", "name": "look", "args": {"n": 1}}, "thoughtSignature": "c2lnbmVk"}

# For each provider: its first and second response, and what must come back to it.
PROVIDERS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "anthropic": (
        [
            OF_ANTHROPIC | {"content": [*THOUGHTS, CALL], "stop_reason": "tool_use"},
            OF_ANTHROPIC | {"content": [{"type": "text", "text": "Seen."}], "stop_reason": "end_turn"},
        ],
        ["c2lnbmVk", "aGlkZGVu", "Hm."],
    ),
    "google": (
        [
            {
                "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
                "modelVersion": "m",
                "responseId": "r1",
            }
            for parts in ([{"text": "Hm.", "thought": True}, GEMINI_CALL], [{"text": "Seen."}])
        ],
        ["c2lnbmVk"],
    ),
    "openai": (
        [
            OF_OPENAI | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            for message in (
                {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [OPENAI_CALL]},
                {"role": "assistant", "content": "Seen."},
            )
        ],
        ["Hm."],
    ),
}


class Host:
    """Offers one tool, whose call waits until `released` is set."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.released = asyncio.Event()

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        return False

    async def prompt_blocks(self, context: Turn | None, message: str) -> PromptBlocks:
        return NO_BLOCKS

    async def run_ended(self, context: Turn | None, summary: RunSummary) -> None:
        pass

    async def get_active_tool_definitions(self, context: Turn, query: str | None = None) -> list[ToolSpec]:
        return [LOOK]

    async def call(
        self, name: str, arguments: Mapping[str, Any], turn: Turn | None = None, **options: Any
    ) -> ToolResult:
        self.called.set()
        await self.released.wait()
        return ToolResult(success=True, message="a cat")


@asynccontextmanager
async def provider(replies: list[dict[str, Any]]) -> AsyncIterator[tuple[str, list[Any]]]:
    """Serve the replies in order, again and again. Yield the address and the bodies of the requests."""
    bodies: list[Any] = []

    async def answer(request: Request) -> JSONResponse:
        body = await request.json()
        bodies.append(body)
        answered = len(body.get("messages") or body.get("contents")) > 2
        return JSONResponse(replies[1 if answered else 0])

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:
            await asyncio.sleep(0)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", bodies
    finally:
        server.should_exit = True
        await task


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
@pytest.mark.parametrize("name", PROVIDERS)
async def test_reasoning_and_signatures_come_back_to_the_provider_after_a_resumption(tmp_path: Path, name: str) -> None:
    replies, kept = PROVIDERS[name]
    async with provider(replies) as (url, bodies):
        endpoint = ModelEndpoint(name, "m", f"{url}/v1" if name == "openai" else url, "k", timeout_s=20)  # type: ignore[arg-type]
        with open_run_journal(Home(tmp_path), Settings(), SystemClock()) as journal:
            async with ModelClient(endpoint) as client:
                whole = Host()
                whole.released.set()
                await Conversation(whole, client, stream=False, runs=Runs(journal)).run("What is there?")

                killed = Host()
                # The journal keeps what it would keep if the process were killed.
                conversation = Conversation(killed, client, stream=False, runs=Runs(journal), leave_open=True)
                task = asyncio.create_task(conversation.run("What is there?"))
                async with asyncio.timeout(20):
                    await killed.called.wait()
                task.cancel()
                await asyncio.wait({task})

                resumed = await Runs(journal).open(journal.interrupted()[0])
                report = await Conversation(whole, client, stream=False, runs=Runs(journal)).resume(resumed)
    assert (report.finish, report.answer) == (Finish.ANSWER, "Seen.")
    uninterrupted, after = bodies[1], bodies[3]
    assert after == uninterrupted
    assert [each for each in kept if each not in str(after)] == []
