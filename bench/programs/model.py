"""`TaskModel`: solves a task over HTTP, in one of two ways: a call per request, or one program.

It speaks the protocol of OpenAI. For the first way it runs the program of the task itself, and whenever that makes a
call, the model's response is this call, and the program goes on with the result in the next request. For the second
way it sends the program. If a signature that the program needs did not come with the message, it first searches for
the tool and reads its description, as a model that does not know a tool must do.
"""

import asyncio
import itertools
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from queue import Queue
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.programs.task import ToolTask
from bench.programs.tokens import TokenCounter
from examples.demo.local_server import serve

Way = Literal["single calls", "one program"]
SINGLE: Way = "single calls"
PROGRAM: Way = "one program"
IMPORT = "from knackbox import tools\n"
STEP_S = 60.0  # how long a program may take between two calls

_USED = re.compile(r"\btools\.(\w+)")

Calls = list[tuple[str, dict[str, Any]]]


@dataclass
class TaskCost:
    """What the requests of one task have cost.

    Attributes:
        input: Tokens of all requests.
        new_input: Those of them that were not part of the request before, which a provider reads from its cache.
        output: Tokens of all responses.
        tools: The number of tools in the first request.
    """

    requests: int = 0
    input: int = 0
    new_input: int = 0
    output: int = 0
    tools: int = 0
    _before: int = field(default=0, repr=False)

    def add(self, tokens: TokenCounter, body: dict[str, Any], reply: dict[str, Any]) -> None:
        asked = tokens.of_request(body)
        self.requests += 1
        self.input += asked
        self.new_input += asked - self._before
        self.output += tokens.of(reply)
        self.tools = self.tools or len(body.get("tools", ()))
        self._before = asked


class StepwiseProgram:
    """Runs the program of a task in a thread, and hands out its calls one by one."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._asked: Queue[tuple[str, Any]] = Queue()
        self._results: Queue[Any] = Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def next(self) -> tuple[str, Any]:
        """Return the name and arguments of the next call, or "" and the answer. Blocks until the program gets there."""
        return self._asked.get(timeout=STEP_S)

    def give(self, result: Any) -> None:
        """Return the result of the last call to the program."""
        self._results.put(result)

    def __getattr__(self, name: str) -> Any:
        """Return the tool of this name, for the program."""

        def call(**arguments: Any) -> Any:
            self._asked.put((name, arguments))
            return self._results.get(timeout=STEP_S)

        return call

    def _run(self) -> None:
        scope: dict[str, Any] = {"tools": self}
        try:
            exec(self._program, scope)
            self._asked.put(("", scope["answer"]))
        except Exception as error:  # noqa: BLE001 -- the program gets the results of failed calls, too
            self._asked.put(("", f"{type(error).__name__}: {error}"))


class TaskModel:
    """Answers the requests of one conversation at a time."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._ids = itertools.count()
        self._task: ToolTask | None = None
        self._way: Way = PROGRAM
        self._steps: StepwiseProgram | None = None
        self.counts = TaskCost()

    def begin(self, task: ToolTask, way: Way) -> None:
        """Expect the first request of a task."""
        self._task, self._way, self._steps, self.counts = task, way, None, TaskCost()

    async def chat(self, request: Request) -> JSONResponse:
        body = await request.json()
        text, calls = await asyncio.to_thread(self._respond, body)
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{next(self._ids)}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for name, arguments in calls
            ]
        self.counts.add(self._tokens, body, message)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
        return JSONResponse({**base, "choices": [choice], "usage": usage})

    def _respond(self, body: dict[str, Any]) -> tuple[str, Calls]:
        if self._task is None:
            return "There is no task.", []
        return self._step(body, self._task) if self._way == SINGLE else self._program(body, self._task)

    def _step(self, body: dict[str, Any], task: ToolTask) -> tuple[str, Calls]:
        if self._steps is None:
            self._steps = StepwiseProgram(task.program)
        else:
            self._steps.give(_value(body["messages"][-1]["content"]))
        name, given = self._steps.next()
        if not name:
            return json.dumps(given), []
        known = {each["function"]["name"] for each in body["tools"]}
        return "", [(next((each for each in known if each.replace("__", "_") == name), name), given)]

    def _program(self, body: dict[str, Any], task: ToolTask) -> tuple[str, Calls]:
        messages = body["messages"]
        if messages[-1]["role"] == "tool" and _last_calls(messages) == {"execute"}:
            return messages[-1]["content"].partition("\nCalls: ")[0].removeprefix("value:\n"), []
        seen = json.dumps(messages[1:])
        missing = [name for name in dict.fromkeys(_USED.findall(task.program)) if f"{name}(" not in seen]
        if not missing or "describe_tool" in _last_calls(messages):
            return "", [("execute", {"language": "python", "code": f"{IMPORT}{task.program}answer"})]
        names = {name.replace(".", "_"): name for name in re.findall(r'\\"name\\": \\"([\w.]+)\\"', seen)}
        if "search_tools" in _last_calls(messages):
            return "", [("describe_tool", {"name": names.get(each, each)}) for each in missing]
        return "", [("search_tools", {"query": each.replace("_", " ")}) for each in missing]


def _last_calls(messages: list[dict[str, Any]]) -> set[str]:
    """Return the names of the tools that the model called last."""
    for message in reversed(messages):
        if message.get("tool_calls"):
            return {each["function"]["name"] for each in message["tool_calls"]}
    return set()


def _value(text: str) -> Any:
    """Return the value of a result that the model reads as text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"content": text}


@asynccontextmanager
async def scripted_model(tokens: TokenCounter) -> AsyncIterator[tuple[TaskModel, str]]:
    """Serve the model. Yields it and its base URL."""
    model = TaskModel(tokens)
    async with serve(Starlette(routes=[Route("/chat/completions", model.chat, methods=["POST"])])) as url:
        yield model, url
