"""An HTTP server that speaks the OpenAI protocol and answers from a script, so that tests use the real client."""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Reply = dict[str, Any]
Scripted = Reply | Callable[[dict[str, Any]], Reply]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def says(text: str, tokens: int = 10) -> Reply:
    return {"text": text, "calls": [], "tokens": tokens}


def calls(*wanted: tuple[str, Any], text: str = "", tokens: int = 10) -> Reply:
    """Return a reply with calls, each given as (name, arguments). A str is sent unchanged, even if it is invalid JSON."""
    return {"text": text, "calls": list(wanted), "tokens": tokens}


def fails(status: int, message: str = "no", headers: dict[str, str] | None = None) -> Reply:
    return {"status": status, "message": message, "headers": headers or {}}


def shows_a_page(html: str = "<!DOCTYPE html><title>Sign in</title>") -> Reply:
    """Answer with a web page and status 200, as proxies and wrong addresses do."""
    return {"page": html}


def breaks_off(text: str, *, cleanly: bool) -> Reply:
    """Send only the start of a streamed reply: the stream ends as if it were complete, or the connection is lost."""
    return {"half": text, "cleanly": cleanly}


def hangs() -> Reply:
    """Accept the request and never reply."""
    return {"hangs": True}


@dataclass
class ScriptedModel:
    """Answers with the replies of the script in order, and then repeats the last one. Stores the body of every request."""

    script: list[Scripted]
    requests: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""
    image: str | None = field(default_factory=lambda: base64.b64encode(PNG).decode())
    hold: asyncio.Event | None = None  # when set, replies wait for it
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    _ids: Any = field(default_factory=itertools.count)

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        if self.hold is not None:
            await self.hold.wait()
        scripted = self.script[min(len(self.requests), len(self.script)) - 1]
        reply = scripted(body) if callable(scripted) else scripted
        if "hangs" in reply:
            await self.closing.wait()
        if "half" in reply:
            return StreamingResponse(self._half(reply), media_type="text/event-stream")
        if "page" in reply:
            return HTMLResponse(reply["page"])
        if "status" in reply:
            return JSONResponse(
                {"error": {"message": reply["message"]}}, status_code=reply["status"], headers=reply["headers"]
            )
        if body.get("stream"):
            return StreamingResponse(self._chunks(reply), media_type="text/event-stream")
        return JSONResponse(
            self._envelope("chat.completion")
            | {
                "choices": [{"index": 0, "message": self._message(reply), "finish_reason": self._finish(reply)}],
                "usage": self._usage(reply),
            }
        )

    async def images(self, request: Request) -> Response:
        self.requests.append(await request.json())
        return JSONResponse({"created": 0, "data": [{"b64_json": self.image}]})

    async def _chunks(self, reply: Reply) -> AsyncIterator[str]:
        pieces = [reply["text"][i : i + 7] for i in range(0, len(reply["text"]), 7)]
        for piece in pieces:
            yield self._chunk({"role": "assistant", "content": piece})
        for index, call in enumerate(self._calls(reply)):
            yield self._chunk({"role": "assistant", "tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, finish=self._finish(reply))
        yield "data: " + json.dumps(
            self._envelope("chat.completion.chunk") | {"choices": [], "usage": self._usage(reply)}
        )
        yield "\n\ndata: [DONE]\n\n"

    async def _half(self, reply: Reply) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": reply["half"]})
        if not reply["cleanly"]:
            raise ConnectionResetError("as if the server were killed")

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "data: " + json.dumps(self._envelope("chat.completion.chunk") | {"choices": [choice]}) + "\n\n"

    def _message(self, reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply["text"] or None}
        if reply["calls"]:
            message["tool_calls"] = self._calls(reply)
        return message

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{next(self._ids)}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for name, given in reply["calls"]
        ]

    @staticmethod
    def _finish(reply: Reply) -> str:
        return "tool_calls" if reply["calls"] else "stop"

    @staticmethod
    def _usage(reply: Reply) -> dict[str, Any]:
        usage = {"prompt_tokens": reply["tokens"], "completion_tokens": 0, "total_tokens": reply["tokens"]}
        return usage | reply.get("usage", {})

    @staticmethod
    def _envelope(kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": "scripted"}

    def tool_messages(self) -> list[str]:
        """Return the content of every tool result in the last request."""
        return [message["content"] for message in self.requests[-1]["messages"] if message["role"] == "tool"]

    def offered(self, index: int = -1) -> list[str]:
        """Return the names of the tools in a request."""
        return [tool["function"]["name"] for tool in self.requests[index].get("tools", [])]


def app_of(model: ScriptedModel) -> Starlette:
    return Starlette(
        routes=[
            Route("/v1/chat/completions", model.chat, methods=["POST"]),
            Route("/v1/images/generations", model.images, methods=["POST"]),
        ]
    )


@asynccontextmanager
async def serving(*script: Scripted) -> AsyncIterator[ScriptedModel]:
    model = ScriptedModel(list(script))
    app = app_of(model)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0)
    model.base_url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        model.closing.set()
        if model.hold is not None:
            model.hold.set()
        server.should_exit = True
        await task
