"""Counts the steps of the five flows: the project's functions that run in the engine's process, and their files.

It opens an engine in a temporary home, makes each call a few times so that caches are filled, and traces the next
call in all threads. A step is a call of a function of the project; functions of libraries are not counted, nor is code
that runs in boxes. Idle background work may add a few steps, so the lowest counts of several calls are shown.

Run it in a checkout: `.venv/bin/python scripts/count_flow_steps.py`. It also works in checkouts from before the
redesign.
"""

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPOSITORY = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(REPOSITORY))

from engine import Engine  # noqa: E402 -- the checkout is given as an argument

PACKAGES = tuple(f"{REPOSITORY}/{name}/" for name in ("engine", "sandbox", "acquired_skills", "builtin_tools"))
WARM_UP, COUNTED = 3, 5
SKILL = '''def count_vowels(text: str) -> int:
    """Count the vowels of a text.

    Args:
        text: the text
    """
    return sum(letter in "aeiou" for letter in text.lower())
'''
TESTS = """from {name} import {name}

def test_counts():
    assert {name}("education") == 5
    assert {name}("AEIOU xyz") == 5
    assert {name}("") == 0
    assert {name}("rhythm") == 0
"""
MODULE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("adder")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run("stdio")
"""


class StepCounter:
    """Counts the calls of the project's functions, as a profile function."""

    def __init__(self) -> None:
        self.steps = 0
        self.functions: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGES):
            return
        if code.co_code[frame.f_lasti + 1] & 3:  # the argument of RESUME: a coroutine or generator that continues
            return
        self.functions.add(code)
        self.steps += 1

    @property
    def files(self) -> int:
        return len({code.co_filename for code in self.functions})


async def count(call: Callable[[int], Awaitable[Any]]) -> tuple[int, int, int]:
    """Return the lowest numbers of steps, functions and files of a call."""
    for number in range(WARM_UP):
        await call(number)
    found = []
    for number in range(COUNTED):
        counter = StepCounter()
        threading.setprofile_all_threads(counter) if sys.version_info >= (3, 12) else threading.setprofile(counter)
        sys.setprofile(counter)
        try:
            await call(WARM_UP + number)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # typeshed does not allow None
        found.append((counter.steps, len(counter.functions), counter.files))
    return min(found)


async def main() -> None:
    rows: dict[str, tuple[int, int, int]] = {}
    with tempfile.TemporaryDirectory(prefix="knackbox-flows-") as folder:
        home = Path(folder)
        (home / "adder.py").write_text(MODULE)
        server = {"command": sys.executable, "args": [str(home / "adder.py")]}
        settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in server.items())
        (home / "config.toml").write_text(f"[mcp_servers.adder]\n{settings}\n")
        async with Engine.open(home, environ={}) as engine:

            async def called(name: str, arguments: dict[str, Any]) -> None:
                result = await engine.call(name, arguments)
                if not result.success:
                    raise SystemExit(f"{name}: {result}")

            def skill(number: int) -> Awaitable[None]:
                name = f"count_vowels_{number}" if number else "count_vowels"
                code = SKILL.replace("count_vowels", name)
                arguments = {
                    "name": name,
                    "description": "Count vowels",
                    "code": code,
                    "tests": TESTS.format(name=name),
                }
                return create(arguments)

            async def create(arguments: dict[str, Any]) -> None:
                await called("create_skill", arguments)
                await called("manage_skills", {"action": "delete", "name": arguments["name"]})

            python = {"language": "python", "code": "6 * 7"}
            rows["call: execute"] = await count(lambda _: called("execute", python))
            rows["turn: list of tools"] = await count(
                lambda _: engine.get_active_tool_definitions(query="count vowels")
            )
            rows["cell: execute, stateful"] = await count(lambda _: called("execute", {**python, "stateful": True}))
            rows["skill: create_skill"] = await count(skill)
            rows["module: a tool of an MCP server"] = await count(lambda _: called("adder.add", {"a": 1, "b": 2}))
    for name, (steps, functions, files) in rows.items():
        sys.stdout.write(f"{name:34} {steps:6} steps {functions:5} functions {files:4} files\n")


asyncio.run(main())
