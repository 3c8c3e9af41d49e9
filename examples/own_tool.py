"""Your own tool: a typed function with a docstring, offered by a source. Run: python examples/own_tool.py"""

import asyncio
import tempfile

from engine import Engine
from engine.contract.context import CallContext
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource


@tool(category="text", annotations=Annotations(read_only=True))
async def longest_line(ctx: CallContext, path: str) -> dict[str, int]:
    """Find the longest line of a text file in the workspace.

    Args:
        path: The file, relative to the workspace.
    """
    lines = ctx.workspace.read(path).decode().splitlines()
    number = max(range(len(lines)), key=lambda i: len(lines[i]))
    return {"line": number + 1, "characters": len(lines[number])}


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        async with Engine.open(home=home, sources=[StaticSource("mine", [longest_line])]) as engine:
            await engine.call("file_system", {"action": "write", "path": "a.txt", "content": "one\nthree\nsix\n"})
            result = await engine.call("longest_line", {"path": "a.txt"})
            print(result.output)
            print((await engine.call("longest_line", {"file": "a.txt"})).error)


if __name__ == "__main__":
    asyncio.run(main())
