"""A model that follows a script, served over HTTP in the OpenAI protocol: the only part of the demo that is not real.

It sees what a true model would see. A tool it was not offered this turn it does not call: the demo then fails.
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

from engine.interfaces.demo.local_server import serve
from engine.interfaces.demo.moves import Move, Say, Use

NAME = "scripted"


class OffScriptError(Exception):
    """The script wanted a tool that this turn does not offer."""


class ScriptedModel:
    """Plays the moves it was given, one per request."""

    def __init__(self) -> None:
        self._moves: deque[Move] = deque()
        self.problem = ""
        self.offered: list[str] = []

    def expect(self, moves: Iterable[Move]) -> None:
        """What to do next."""
        self._moves = deque(moves)

    async def answer(self, request: Request) -> JSONResponse:
        """`POST /chat/completions`."""
        asked = await request.json()
        self.offered = [tool["function"]["name"] for tool in asked.get("tools", ())]
        try:
            message = self._next(asked)
        except OffScriptError as problem:
            self.problem = str(problem)
            message = {"role": "assistant", "content": self.problem}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return JSONResponse(_completion(message, reason))

    def _next(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if not self._moves:
            raise OffScriptError("The script has no more moves.")
        move = self._moves.popleft()
        match move:
            case Say():
                return {"role": "assistant", "content": move.words(asked["messages"])}
            case Use(tool, arguments):
                if tool not in self.offered:
                    raise OffScriptError(
                        f"The script uses {tool}, but this turn offers only: {', '.join(self.offered)}."
                    )
                function = {"name": tool, "arguments": json.dumps(dict(arguments))}
                call = {"id": f"call_{len(asked['messages'])}", "type": "function", "function": function}
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
    """The model, and the base URL it is served at while inside."""
    model = ScriptedModel()
    async with serve(Starlette(routes=[Route("/chat/completions", model.answer, methods=["POST"])])) as url:
        yield model, url
