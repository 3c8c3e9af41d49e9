"""A process with kernels, for tests: ``owner_process.py HOME AGENT``.

Each line of stdin is the code of a cell, as JSON. The text of its result is a line of stdout, as JSON. A line ``&code``
starts a cell without waiting for it, and ``wait`` waits for it.
"""

import asyncio
import json
import sys
from typing import Any

from engine import Engine
from engine.contract.turn import Turn


async def serve(home: str, agent: str) -> None:
    async with Engine.open(home, environ={}) as engine:

        async def cell(code: str) -> str:
            arguments: dict[str, Any] = {"language": "python", "code": code, "stateful": True, "timeout_s": 60}
            return (await engine.call("execute", arguments, Turn(agent=agent))).text

        begun: list[asyncio.Task[str]] = []
        while line := await asyncio.to_thread(sys.stdin.readline):
            code: str = json.loads(line)
            if code.startswith("&"):
                begun.append(asyncio.ensure_future(cell(code[1:])))
                print(json.dumps("begun"), flush=True)
            else:
                print(json.dumps(await begun.pop() if code == "wait" else await cell(code)), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
