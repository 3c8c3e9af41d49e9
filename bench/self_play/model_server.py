"""An HTTP server that speaks the OpenAI protocol, whose answers a function makes from the requests."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

# Called with the body of a request. Returns the text of the answer, and the tools to call with their arguments.
Respond = Callable[[dict[str, Any]], tuple[str, list[tuple[str, dict[str, Any]]]]]


@asynccontextmanager
async def serving_model(respond: Respond) -> AsyncIterator[str]:
    """Serve a scripted model, and yield its base URL. Responses are not streamed."""
    ids = itertools.count()

    async def chat(request: Request) -> JSONResponse:
        text, calls = respond(await request.json())
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{next(ids)}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for name, arguments in calls
            ]
        finish = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
        return JSONResponse({**base, "choices": choices, "usage": usage})

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:  # noqa: ASYNC110 -- uvicorn has no event for it
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task
