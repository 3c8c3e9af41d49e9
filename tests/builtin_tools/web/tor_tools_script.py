"""Calls tools of an engine in a process of its own, for tests in network namespaces.

Standard input: one JSON line with ``home`` and ``calls``, a list of names and arguments. Standard output: a JSON line for
each call.
"""

import asyncio
import json
import sys

from engine import Engine


async def main() -> None:
    given = json.loads(await asyncio.to_thread(sys.stdin.readline))
    async with Engine.open(home=given["home"]) as engine:
        for name, arguments in given["calls"]:
            result = await engine.call(name, arguments)
            print(json.dumps({"success": result.success, "output": result.output, "error": result.error}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
