"""The model of the run, served over HTTP. It can kill the process whose request it receives."""

import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.durability.scenario import next_calls
from bench.durability.worker import PID_FILE
from examples.demo.local_server import serve


@dataclass
class ScriptedServer:
    """Answers as the script says.

    Attributes:
        folder: The folder of the worker.
        kill_at: The number of the request at which the worker is killed; 0 for none.
        times: When requests arrived, by `time.monotonic`.
        messages: The conversation of the latest request.
    """

    folder: Path = Path()
    kill_at: int = 0
    times: list[float] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    _calls: int = 0

    def expect(self, folder: Path, kill_at: int) -> None:
        """Forget the requests so far, and expect those of a new process."""
        self.folder, self.kill_at = folder, kill_at
        self.times, self.messages = [], []

    async def answer(self, request: Request) -> JSONResponse:
        self.messages = (await request.json())["messages"]
        self.times.append(time.monotonic())
        if len(self.times) == self.kill_at:
            os.kill(int((self.folder / PID_FILE).read_text()), signal.SIGKILL)
        calls = next_calls(self.messages)
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else "All done."}
        if calls:
            message["tool_calls"] = [self._call(name, given) for name, given in calls]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted"}
        return JSONResponse(head | {"choices": [choice], "usage": usage})

    def _call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        function = {"name": name, "arguments": json.dumps(given)}
        return {"id": f"call_{self._calls}", "type": "function", "function": function}


@asynccontextmanager
async def scripted_server() -> AsyncIterator[tuple[ScriptedServer, str]]:
    """Serve the model. Yields it and its base URL."""
    server = ScriptedServer()
    async with serve(Starlette(routes=[Route("/chat/completions", server.answer, methods=["POST"])])) as url:
        yield server, url
