"""Opens and uses a home, and prints the cost as one JSON object. `bench growth` runs it as a separate process."""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from acquired_skills.commands.show import PAGE, listing
from acquired_skills.lifecycle.library import SkillLibrary
from engine import Engine
from engine.contract.turn import Turn
from sandbox.contract import Protections

REQUEST = "please merge the weekly invoice of my patient"


class _NoSandbox:
    """A sandbox that runs nothing, so that the start of a real one is not measured."""

    name = "none"

    async def run(self, job: Any, *, on_output: Any = None) -> Any:  # noqa: ARG002 -- the signature of a sandbox
        raise RuntimeError("this sandbox runs nothing")

    async def report(self) -> Protections:
        return Protections("none", ())

    async def aclose(self) -> None:
        pass


async def _call(engine: Engine, tool: str, **arguments: str) -> None:
    result = await engine.call(tool, arguments, Turn(use_tool_search_flow=True))
    if not result.success:
        raise RuntimeError(result.error)


async def probe(home: str) -> dict[str, float]:
    """Return the processor time of each step in seconds, over all threads, and the peak memory in MiB."""
    found: dict[str, float] = {}

    async def timed(step: str, work: Callable[[], Awaitable[Any]]) -> Any:
        before = time.process_time()
        result = await work()
        found[step] = time.process_time() - before
        return result

    opening = Engine.open(home, sandbox=_NoSandbox(), environ={})
    engine = await timed("open", opening.__aenter__)
    try:
        library = engine.need(SkillLibrary)
        listed = await timed("first search", lambda: engine.list_tools(query=REQUEST))
        await timed("next search", lambda: engine.list_tools(query=f"{REQUEST}, and the chord"))
        rows = await timed("list", lambda: listing(library, PAGE, ""))
        await timed("stats", lambda: library.stats(limit=PAGE))
        name = str(rows[0]["name"]) if rows else "none_of_them"
        await timed("find by name", lambda: library.find(name))
        await timed("search_tools", lambda: _call(engine, "search_tools", query=REQUEST))
        described = name if rows else "execute"
        await timed("describe_tool", lambda: _call(engine, "describe_tool", name=described))
        await timed("tool page", lambda: engine.tool_page(limit=PAGE))
        found["rows"] = len(rows)
        found["found"] = sum(tool.spec.category == "skill" for tool in listed.tools)
        found["chroma"] = "chromadb" in sys.modules
        found["MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    finally:
        await opening.__aexit__(None, None, None)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(probe(sys.argv[1]))))
