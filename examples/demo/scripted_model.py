"""A model that follows a script, served over HTTP in the OpenAI protocol: the only part of the demo that is not real.

It receives what a real model would receive. If the script uses a tool that the turn does not offer, the demo fails.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .local_server import serve
from .moves import Move, Say, Use

NAME = "scripted"


class OffScriptError(Exception):
    """The script uses a tool that this turn does not offer, or has no more moves."""


class ScriptedModel:
    """Responds with the moves of a scene, one per request."""

    def __init__(self) -> None:
        self._moves: deque[Move] = deque()
        self.problem = ""
        self.offered: list[str] = []

    def expect(self, moves: Iterable[Move]) -> None:
        """Set the next moves."""
        self._moves = deque(moves)

    async def answer(self, request: Request) -> JSONResponse:
        """Handle `POST /chat/completions`."""
        body = await request.json()
        self.offered = [tool["function"]["name"] for tool in body.get("tools", ())]
        try:
            message = self._next(body)
        except OffScriptError as problem:
            self.problem = str(problem)
            message = {"role": "assistant", "content": self.problem}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return JSONResponse(_completion(message, reason))

    def _next(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if not self._moves:
            raise OffScriptError("The script has no more moves.")
        move = self._moves.popleft()
        match move:
            case Say():
                return {"role": "assistant", "content": move.words(body["messages"])}
            case Use(tool, arguments):
                if tool not in self.offered:
                    raise OffScriptError(
                        f"The script uses {tool}, but this turn offers only: {', '.join(self.offered)}."
                    )
                function = {"name": tool, "arguments": json.dumps(dict(arguments))}
                call = {"id": f"call_{len(body['messages'])}", "type": "function", "function": function}
                return {"role": "assistant", "content": None, "tool_calls": [call]}


def _completion(message: dict[str, Any], reason: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": NAME,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


@asynccontextmanager
async def scripted_model() -> AsyncIterator[tuple[ScriptedModel, str]]:
    """Serve a model inside the context, and yield it with its base URL."""
    model = ScriptedModel()
    async with serve(Starlette(routes=[Route("/chat/completions", model.answer, methods=["POST"])])) as url:
        yield model, url
