"""Runs one query in an engine of its own process, and prints the peak of its memory. Tests measure or kill it.

The standard input has the settings of the pack, the home and the arguments of the call, as JSON.
"""

import asyncio
import json
import resource
import sys
from typing import Any

from engine import Engine
from engine.app.settings import Settings


async def run(given: dict[str, Any]) -> None:
    settings = Settings.model_validate({"packs": {"database": given["pack"]}})
    async with Engine.open(given["home"], settings=settings, environ={}) as engine:
        await engine.call("postgres_admin", {"action": "query", "sql": "SELECT 1", "path": given["warm"]})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await engine.call("postgres_admin", given["arguments"])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"output": result.output, "error": result.error, "before_kb": before, "after_kb": after}))


if __name__ == "__main__":
    asyncio.run(run(json.load(sys.stdin)))
